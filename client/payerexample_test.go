package client_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sluice/client"
)

// payerOfExample returns a payer of a new account, which buys 10 chunksets at a time.
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

// A payer opens a channel and buys a session with the first call of Ensure, and buys more only if fewer
// chunksets are left than are needed.
func ExamplePayer() {
	c, stop := example(serviceOptions{price: 2})
	defer stop()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	ctx := context.Background()

	p := payerOfExample(c, dir)
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

// Close refunds what was not spent. The chunksets that were bought remain usable.
func ExamplePayer_CloseChannel() {
	c, stop := example(serviceOptions{price: 2})
	defer stop()
	dir, err := os.MkdirTemp("", "example")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	ctx := context.Background()

	p := payerOfExample(c, dir)
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
