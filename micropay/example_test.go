package micropay_test

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"sluice/micropay"
)

// policy returns the examples' policy.
func policy() micropay.Policy {
	return micropay.Policy{
		Receiver:      micropay.Address{31: 0xa1},
		Asset:         micropay.Address{31: 0xa2},
		ModuleAddress: micropay.Address{31: 0xa3},
		ChainID:       4,
	}
}

// now returns the examples' time.
func now() time.Time { return time.Unix(1_760_000_000, 0) }

// header returns the text that a payer sends: the third payment over channel 7, of 250 units in
// total, which expires after a minute.
func header() (string, error) {
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{0x11}, 32))
	if err != nil {
		return "", err
	}
	signer, err := micropay.NewSigner(micropay.SchemeEd25519, key)
	if err != nil {
		return "", err
	}
	p := policy()
	m, err := signer.Sign(micropay.Payment{
		Receiver:         p.Receiver,
		Asset:            p.Asset,
		ModuleAddress:    p.ModuleAddress,
		ChainID:          p.ChainID,
		PaymentChannelID: 7,
		Sequence:         3,
		Amount:           250,
		Expiration:       uint64(now().Unix()) + 60,
		Nonce:            12345,
		AccountSequence:  micropay.NoAccountSequence,
		MaxGas:           200_000,
		GasPrice:         100,
	})
	if err != nil {
		return "", err
	}
	return m.Base64(), nil
}

// A payer signs and sends the base64 text.
func ExampleSigner_Sign() {
	text, err := header()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(text), text[:24])
	// Output:
	// 496 FH5NOlsQ6u0qk1NuKEwjCW38
}

// A server parses the text, checks it against its policy, and verifies the signature.
func ExampleParseBase64() {
	text, err := header()
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := micropay.ParseBase64(text)
	if err == nil {
		err = m.Check(policy(), now())
	}
	if err == nil {
		err = m.Verify()
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("from", m.Sender)
	fmt.Println("channel", m.PaymentChannelID, "payment", m.Sequence, "amount", m.Amount)
	fmt.Println("expires", m.Expires().Format(time.RFC3339))
	// Output:
	// from 0x147e4d3a5b10eaed2a93536e284c23096dfcea9ac61f0a8420e5d01fbd8f0ea8
	// channel 7 payment 3 amount 250
	// expires 2025-10-09T08:54:20Z
}

// An error distinguishes bytes that are not a micropayment from a micropayment that this receiver
// does not accept, and gives the reason.
func ExampleError() {
	text, err := header()
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := micropay.ParseBase64(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, cut := micropay.ParseBase64(text[:400])
	for _, err := range []error{m.Check(policy(), now().Add(time.Hour)), cut} {
		var refusal *micropay.Error
		if errors.As(err, &refusal) {
			fmt.Println(errors.Is(err, micropay.ErrMalformed), refusal.Class, refusal.Reason)
		}
	}
	// Output:
	// false policy expired
	// true parse truncated
}

// An address has many spellings and one canonical form.
func ExampleParseAddress() {
	for _, text := range []string{"0x1", "1", "0x00000001"} {
		a, err := micropay.ParseAddress(text)
		fmt.Println(a, err)
	}
	// Output:
	// 0x1 <nil>
	// 0x1 <nil>
	// 0x1 <nil>
}
