package client_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"sluice/client"
)

// payerOfExample returns a payer for a new account, which buys 10 chunksets at a time.
func payerOfExample(c *client.Client, dir string) *client.Payer {
	signer, err := newSigner(7)
	check(err)
	p, err := c.NewPayer(context.Background(), client.PayerOptions{
		Signer:    signer,
		StateFile: filepath.Join(dir, "payer.json"),
		MaxPrice:  2,
		MaxSpend:  100,
		Chunksets: 10,
		Deposit:   1000,
	})
	check(err)
	return p
}

// examplePayer returns a payer and the client that it uses, for the examples.
func examplePayer() (c *client.Client, p *client.Payer, stop func()) {
	c, stopService := example(serviceOptions{price: 2})
	dir, remove := exampleFolder()
	return c, payerOfExample(c, dir), func() {
		stopService()
		remove()
	}
}

// A payer opens a channel and buys a session with the first call of Ensure, and buys more only if
// fewer chunksets are left than are needed.
func ExamplePayer() {
	c, p, stop := examplePayer()
	defer stop()

	s, err := p.Ensure(ctx, 1)
	check(err)
	fmt.Println(s.ChunksetsLeft)
	_, err = c.Use(ctx, s.ID, client.UseOptions{})
	check(err)
	s, err = p.Ensure(ctx, 5)
	check(err)
	fmt.Println(s.ChunksetsLeft)
	s, err = p.Ensure(ctx, 12)
	check(err)
	fmt.Println(s.ChunksetsLeft)
	st, err := p.Status(ctx)
	check(err)
	fmt.Println(st.Spent)
	// Output:
	// 10
	// 9
	// 19
	// 40
}

// Close refunds the rest. The chunksets that were bought remain usable.
func ExamplePayer_CloseChannel() {
	c, p, stop := examplePayer()
	defer stop()

	s, err := p.Buy(ctx, 10)
	check(err)
	ch, err := p.CloseChannel(ctx)
	check(err)
	fmt.Println(ch.State, ch.Accepted, ch.Refund)
	left, err := c.Use(ctx, s.ID, client.UseOptions{})
	check(err)
	fmt.Println(left)
	// Output:
	// closed 20 980
	// 9
}

// A program's next call goes on with the state file: Status shows the signed amount, without a
// request.
func ExamplePayer_Status() {
	c, stop := example(serviceOptions{price: 2})
	defer stop()
	dir, remove := exampleFolder()
	defer remove()

	_, err := payerOfExample(c, dir).Buy(ctx, 10)
	check(err)
	st, err := payerOfExample(c, dir).Status(ctx)
	check(err)
	fmt.Println(st.Bought, st.Signed, st.Pending)
	// Output: 20 20 false
}

// A purchase beyond the budget is refused before anything is signed.
func ExamplePayer_Ensure() {
	_, p, stop := examplePayer()
	defer stop()

	_, err := p.Ensure(ctx, 51)
	fmt.Println(errors.Is(err, client.ErrBudget))
	// Output: true
}

// A payer's channel is opened with the first purchase, or by Channel.
func ExamplePayer_Channel() {
	_, p, stop := examplePayer()
	defer stop()

	ch, err := p.Channel(ctx)
	check(err)
	fmt.Println(ch.State, ch.Sender == p.Address(), ch.Deposit)
	ch, err = p.Deposit(ctx, 50, client.DepositOptions{})
	check(err)
	fmt.Println(ch.Deposit)
	// Output:
	// open true 1000
	// 1050
}

// If a service was paid and did not deliver, the payer signs nothing more until the loss is
// accepted. Here nothing is lost.
func ExamplePayer_WriteOff() {
	_, p, stop := examplePayer()
	defer stop()

	_, err := p.Ensure(ctx, 1)
	if errors.Is(err, client.ErrNotDelivered) {
		lost, err := p.WriteOff(ctx)
		check(err)
		fmt.Println("lost", lost)
	}
	fmt.Println(err)
	// Output: <nil>
}
