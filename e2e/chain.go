package e2e

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"sluice/micropay"
	"sluice/test/fullnode"
	"sluice/test/testenv"
)

// TestChain is a chain on which a server collects payments: a fullnode, and the receiver's account.
type TestChain struct {
	*fullnode.Node
	Receiver *micropay.Signer
	Key      string // the receiver's private key in hexadecimal
	APIKey   string // the fullnode's
	flags    []string
}

// StartChain starts a fullnode that follows the machine's clock. The flags let a server collect on
// it.
func StartChain(t testing.TB) *TestChain {
	t.Helper()
	c := &TestChain{
		Node:   fullnode.Start(t, fullnode.Options{}),
		Key:    hex.EncodeToString(bytes.Repeat([]byte{0xc4, 0x1e}, 16)),
		APIKey: "fullnode-canary-6QYB2MW4",
	}
	key, err := micropay.ParsePrivateKey(c.Key)
	testenv.OK(t, err)
	if c.Receiver, err = micropay.NewSigner(micropay.SchemeEd25519, key); err != nil {
		t.Fatal(err)
	}
	c.flags = []string{
		"--chain-url", c.URL(), "--receiver", c.Receiver.Address().String(),
		"--receiver-key-file", SecretFile(t, "ed25519-priv-0x"+c.Key+"\n"), "--chain-api-key-file", SecretFile(t, c.APIKey+"\n"),
	}
	return c
}

// SecretFile returns a new file's path. Only the current user may read it.
func SecretFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	testenv.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// With returns options for a server that collects on the chain.
func (c *TestChain) With(flags ...string) Options {
	return Options{Flags: slices.Concat([]string{"--reads", "paid"}, c.flags, flags)}
}

// Fund puts a channel on the chain.
func (c *TestChain) Fund(p *Payer, number, deposit uint64) fullnode.Channel {
	now := time.Now()
	channel := fullnode.Channel{
		Sender: p.Signer.Address().String(), Receiver: p.Terms.Receiver.String(), Asset: p.Terms.Asset.String(), ID: number,
		Deposit: deposit, Created: fullnode.Time{Time: now}, Expires: fullnode.Time{Time: now.Add(24 * time.Hour)},
	}
	c.Open(channel)
	return channel
}

// OpenOn puts a channel on the chain and opens it at the server.
func (c *TestChain) OpenOn(s *Server, p *Payer, number, deposit uint64) *Channel {
	s.T.Helper()
	c.Fund(p, number, deposit)
	return s.Opened(p, s.Must(201, "POST", Channels, AsJSON(s.T, map[string]any{
		"userIdentity": p.Signer.Address().String(), "paymentChannelId": strconv.FormatUint(number, 10),
	})))
}

// Collected fails the test unless the chain has paid exactly these amounts over the channel, one in
// each transaction, and executed no other one.
func (c *TestChain) Collected(t testing.TB, number uint64, paid ...uint64) {
	t.Helper()
	var got []uint64
	for _, e := range c.Executed() {
		if e.Channel == number {
			got = append(got, e.Paid)
		}
	}
	if !slices.Equal(got, paid) {
		t.Errorf("the chain has paid %v over channel %d, want %v", got, number, paid)
	}
}

// TryBuy sends the next payment with changes, without expecting a response.
func (c *Channel) TryBuy(more uint64, change ...func(*micropay.Payment)) Response {
	c.S.T.Helper()
	r := c.S.Do("POST", "/v1/sessions", PurchaseBody(c.S.T, c.Payer.Sign(c.S.T, c.Number, c.Sequence+1, c.Amount+more, change...).Base64(), ""))
	if r.Status == 201 {
		c.Sequence, c.Amount = c.Sequence+1, c.Amount+more
	}
	return r
}

// Refuses fails the test unless the server refuses a payment for this reason.
func (c *Channel) Refuses(label, reason string, change ...func(*micropay.Payment)) Response {
	c.S.T.Helper()
	r := c.TryBuy(10, change...)
	if r.Status != 402 || Member(c.S.T, r, "code") != "micropayment_refused" || Member(c.S.T, r, "reason") != reason {
		c.S.T.Errorf("%s: %v, want the reason %s", label, r, reason)
	}
	return r
}

// Recover ends everything that is wrong with the fullnode.
func (c *TestChain) Recover() {
	c.Restart()
	c.Heal()
	c.Lie(0)
}
