package micropay

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"sluice/test/testenv"
)

// checkSimulation checks that a simulation is the transaction without a valid signature, with the
// same size, public keys and signers.
func checkSimulation(t testing.TB, m *Micropayment, receiver *Signer) {
	t.Helper()
	simulated := testenv.Must(m.Simulation(receiver))(t)
	collected := testenv.Must(m.Collect(receiver))(t)
	if len(simulated) != len(collected.Body) {
		t.Errorf("the simulation has %d bytes, the transaction %d", len(simulated), len(collected.Body))
	}
	start := m.signed - secondarySignerSize
	if !bytes.Equal(simulated[:start], collected.Body[:start]) {
		t.Errorf("the transaction is %x, want %x", simulated[:start], collected.Body[:start])
	}
	of := func(body []byte) (authenticators [3]authenticator) {
		r := &reader{rest: body[start+1:]}
		authenticators[0] = r.authenticator()
		r.take(1 + len(Address{}) + 1)
		authenticators[1] = r.authenticator()
		r.take(len(Address{}))
		authenticators[2] = r.authenticator()
		if r.err != nil || len(r.rest) > 0 || body[start] != authenticatorFeePayer {
			t.Fatalf("%v, %d bytes left", r.err, len(r.rest))
		}
		return authenticators
	}
	wanted := of(collected.Body)
	for i, got := range of(simulated) {
		want := wanted[i]
		if got.address() != want.address() || !bytes.Equal(got.bitmap(), want.bitmap()) {
			t.Errorf("authenticator %d is %+v, want the keys and signers of %+v", i, got, want)
		}
		for _, s := range got.signatures {
			if !bytes.Equal(s.bytes, make([]byte, signatureSize)) || got.keys[s.key].verify(m.SigningMessage(), s) == nil {
				t.Errorf("authenticator %d has the signature %x", i, s.bytes)
			}
		}
	}
}

// TestSimulationOfAnotherReceiver checks that another receiver can neither simulate nor collect a
// micropayment.
// Invariant 175.
func TestSimulationOfAnotherReceiver(t *testing.T) {
	all := settlementVectors(t)
	m := testenv.Must(ParseBase64(all[0].Micropayment))(t)
	for _, v := range all[1:] {
		if v.ReceiverAddress == all[0].ReceiverAddress {
			continue
		}
		if c, err := m.Collect(v.signer(t)); c != nil || !errors.Is(err, ErrKey) {
			t.Errorf("%s: %v, %v", v.Name, c, err)
		}
		if body, err := m.Simulation(v.signer(t)); body != nil || !errors.Is(err, ErrKey) {
			t.Errorf("%s: %x, %v", v.Name, body, err)
		}
	}
}

// TestForm checks that the form changes exactly if something differs that may decide whether the
// chain takes the payment, apart from its state.
func TestForm(t *testing.T) {
	_, all := vectors(t)
	payment := all[0].payment(t)
	ed, other := testKey(t, KeyEd25519, 1), testKey(t, KeyEd25519, 2)
	plain := testenv.Must(NewSigner(SchemeEd25519, ed))(t)
	form := func(s *Signer, change func(*Payment)) string {
		p := payment
		change(&p)
		m := testenv.Must(s.Sign(p))(t)
		testenv.Equal(t, m.UsesAccountSequence(), p.Form != FormNonce, "form %v uses the account's sequence number", p.Form)
		return m.Form()
	}
	same := func(*Payment) {}
	want := form(plain, same)
	if want != fmt.Sprintf("nonce Ed25519 1/1 gas %d at %d", payment.MaxGas, payment.GasPrice) {
		t.Errorf("the form is %q", want)
	}
	testenv.Equal(t, form(plain, func(p *Payment) { p.Amount++; p.Sequence++; p.PaymentChannelID++; p.Nonce++; p.Expiration++ }), want, "the form of the next payment")
	seen := map[string]string{want: "the first"}
	for name, got := range map[string]string{
		"sequence":         form(plain, func(p *Payment) { p.Form, p.Nonce = FormSequence, 0 }),
		"plain":            form(plain, func(p *Payment) { p.Form, p.Nonce = FormPlain, 0 }),
		"maximum gas":      form(plain, func(p *Payment) { p.MaxGas-- }),
		"gas price":        form(plain, func(p *Payment) { p.GasPrice++ }),
		"SingleKey":        form(testenv.Must(NewSigner(SchemeSingleKey, ed))(t), same),
		"MultiEd25519":     form(testenv.Must(NewMultiSigner(SchemeMultiEd25519, publics(ed), 1, ed))(t), same),
		"MultiKey":         form(testenv.Must(NewMultiSigner(SchemeMultiKey, publics(ed), 1, ed))(t), same),
		"one of two":       form(testenv.Must(NewMultiSigner(SchemeMultiKey, publics(ed, other), 1, ed))(t), same),
		"two of two":       form(testenv.Must(NewMultiSigner(SchemeMultiKey, publics(ed, other), 1, ed, other))(t), same),
		"two of two Ed255": form(testenv.Must(NewMultiSigner(SchemeMultiEd25519, publics(ed, other), 1, ed, other))(t), same),
	} {
		if twin, found := seen[got]; found {
			t.Errorf("%s has the form of %s, %q", name, twin, got)
		}
		seen[got] = name
	}
}
