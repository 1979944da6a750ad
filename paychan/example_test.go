package paychan_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"sluice/database/sqlstore"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
)

// A payer opens a channel and pays over it. The payment buys a session, and its settlement is
// booked in the ledger.
func Example() {
	dir, err := os.MkdirTemp("", "paychan")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	ctx := context.Background()

	service, err := paychan.New(store, paychan.Options{
		Receiver:       "0x1",
		Asset:          paychan.DefaultAsset,
		Module:         paychan.DefaultModule,
		ChainID:        paychan.DefaultChainID,
		Price:          10,
		Deposit:        1_000,
		UnsettledLimit: 1_000,
		SessionTTL:     time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}

	payer, err := newSigner()
	if err != nil {
		log.Fatal(err)
	}
	number := int64(7)
	channel, err := service.Open(ctx, paychan.OpenOptions{Sender: payer.Address().String(), PaymentChannelID: &number}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("deposit", channel.Deposit)

	// The payer signs, and sends the text in a header.
	text, err := sign(payer, 1, 45)
	if err != nil {
		log.Fatal(err)
	}
	payment, err := service.Verify(ctx, text, nil)
	if err != nil {
		log.Fatal(err)
	}
	bought, err := service.Buy(ctx, paychan.BuyOptions{Payment: payment}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("chunksets", bought.Left)

	_, err = service.Buy(ctx, paychan.BuyOptions{Payment: payment}, nil)
	fmt.Println("paid twice:", errors.Is(err, ledger.ErrStalePayment))

	if err := service.Settle(ctx); err != nil {
		log.Fatal(err)
	}
	if channel, err = service.Get(ctx, channel.ID); err != nil {
		log.Fatal(err)
	}
	fmt.Println("accepted", channel.Accepted, "credit", channel.Credit, "settled", channel.Settled)

	// Output:
	// deposit 1000
	// chunksets 4
	// paid twice: true
	// accepted 45 credit 5 settled 45
}

func newSigner() (*micropay.Signer, error) {
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		return nil, err
	}
	return micropay.NewSigner(micropay.SchemeEd25519, key)
}

// sign returns the micropayment of this sequence number and cumulative amount over channel 7.
func sign(payer *micropay.Signer, sequence, amount uint64) (string, error) {
	receiver, err := micropay.ParseAddress("0x1")
	if err != nil {
		return "", err
	}
	asset, err := micropay.ParseAddress(paychan.DefaultAsset)
	if err != nil {
		return "", err
	}
	module, err := micropay.ParseAddress(paychan.DefaultModule)
	if err != nil {
		return "", err
	}
	m, err := payer.Sign(micropay.Payment{
		Receiver:         receiver,
		Asset:            asset,
		ModuleAddress:    module,
		ChainID:          paychan.DefaultChainID,
		PaymentChannelID: 7,
		Sequence:         sequence,
		Amount:           amount,
		Expiration:       uint64(time.Now().Add(time.Hour).Unix()),
		Nonce:            sequence,
		AccountSequence:  micropay.NoAccountSequence,
	})
	if err != nil {
		return "", err
	}
	return m.Base64(), nil
}
