package client_test

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"sluice/client"
	"sluice/micropay"
	"sluice/test/fault"
	"sluice/test/testenv"
)

const (
	modelPrice    = 3
	modelPurchase = 60 // MaxPurchase
)

// payerModel is a payer, its signed amounts, and the service that it pays.
type payerModel struct {
	*rapid.T
	faults  []fault.Kind   // of the network while the payer buys; otherwise it works
	network *client.Client // the payer's
	perfect *client.Client // over a network that works
	worst   bool           // reports whether the payer buys
	options client.PayerOptions
	payer   *client.Payer
	signed  uint64
	losses  uint64 // of the state file
}

func (m *payerModel) check(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// newPayerModel opens a channel for the account with a number, and starts its payer.
func newPayerModel(t *rapid.T, s *service, dir string, number int) *payerModel {
	networks := [][]fault.Kind{{fault.None}, {fault.None, fault.None, fault.None, fault.Fail}, {fault.None, fault.None, fault.Lose}, {fault.None, fault.None, fault.Fail, fault.Lose, fault.Tear}}
	m := &payerModel{T: t, faults: rapid.SampledFrom(networks).Draw(t, "network")}
	secret := [32]byte{byte(number), byte(number >> 8), 1}
	key := inCheck(micropay.NewPrivateKey(micropay.KeyEd25519, secret[:]))(m.T)
	signer := inCheck(micropay.NewSigner(micropay.SchemeEd25519, key))(m.T)
	m.perfect = inCheck(client.New("http://localhost:9090", client.Options{Transport: s}))(m.T)
	m.network = inCheck(client.New("http://localhost:9090", client.Options{MaxAttempts: 2, Transport: &faulty{s, m.fault}}))(m.T)
	channel := inCheck(m.perfect.OpenChannel(t.Context(), client.OpenChannelOptions{Sender: signer.Address().String()}))(m.T)
	m.options = client.PayerOptions{
		Signer: signer, StateFile: filepath.Join(dir, "state"), MaxPrice: modelPrice, MaxSpend: 100_000, MaxPurchase: modelPurchase,
		Chunksets: 5, ChannelID: channel.ID,
	}
	m.removeState()
	m.restart(t)
	return m
}

func (m *payerModel) fault(*http.Request) fault.Kind {
	if !m.worst {
		return fault.None
	}
	return rapid.SampledFrom(m.faults).Draw(m.T, "fault")
}

func (m *payerModel) removeState() {
	if err := os.Remove(m.options.StateFile); !errors.Is(err, os.ErrNotExist) {
		m.check(err)
	}
}

func (m *payerModel) status() client.PayerStatus {
	return inCheck(m.payer.Status(m.Context()))(m.T)
}

func (m *payerModel) channel() client.Channel {
	return inCheck(m.perfect.Channel(m.Context(), m.options.ChannelID))(m.T)
}

// steps returns the events that can happen to the payer.
func (m *payerModel) steps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"ensure": m.ensure, "buy": m.buy, "use": m.use, "restart": m.restart, "pause": m.pause, "lose the state": m.lose,
	}
}

func (m *payerModel) ensure(t *rapid.T) {
	m.worst = true
	_, _ = m.payer.Ensure(t.Context(), rapid.Int64Range(1, 20).Draw(t, "n")) // the accounts are checked
	m.worst = false
}

func (m *payerModel) buy(t *rapid.T) {
	m.worst = true
	_, _ = m.payer.Buy(t.Context(), rapid.Int64Range(1, 20).Draw(t, "n")) // the accounts are checked
	m.worst = false
}

func (m *payerModel) use(t *rapid.T) {
	id := m.status().SessionID
	if id == "" {
		return
	}
	_, err := m.perfect.Use(t.Context(), id, client.UseOptions{})
	if !errors.Is(err, client.ErrPaymentRequired) && !errors.Is(err, client.ErrGone) {
		m.check(err)
	}
}

func (m *payerModel) restart(t *rapid.T) {
	m.payer = inCheck(m.network.NewPayer(t.Context(), m.options))(m.T)
}

func (m *payerModel) pause(t *rapid.T) {
	time.Sleep(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
}

func (m *payerModel) lose(*rapid.T) {
	m.removeState()
	m.losses++
}

// accounts ends the check unless the service has accepted the price of its sales, and no more than
// was signed.
func (m *payerModel) accounts() {
	st, now := m.status(), m.channel()
	var sold int64
	for _, s := range now.Sessions {
		sold += inCheck(m.perfect.Session(m.Context(), s.ID))(m.T).ChunksetsTotal
	}
	m.signed = max(m.signed, st.Signed)
	if now.Accepted != uint64(sold)*modelPrice || now.Credit != 0 || now.Accepted > m.signed || st.Bought > now.Accepted {
		m.Fatalf("accepted %d, credit %d for %d chunksets; signed %d, %+v", now.Accepted, now.Credit, sold, m.signed, st)
	}
	// Each loss of the state may leave one purchase behind that this state cannot know.
	if m.signed > now.Accepted+modelPurchase*(1+m.losses) {
		m.Fatalf("accepted %d, and %d was signed", now.Accepted, m.signed)
	}
}

// deliversAll buys over a network that works. Afterwards everything that was signed last must be
// delivered, exactly once.
func (m *payerModel) deliversAll() {
	time.Sleep(2 * time.Minute)
	before, pending := m.channel(), m.status().Pending
	inCheck(m.payer.Buy(m.Context(), 5))(m.T)
	after, st := m.channel(), m.status()
	if st.Bought != after.Accepted || st.Pending || !pending && after.Accepted != before.Accepted+5*modelPrice {
		m.Fatalf("at last: accepted %d, then %d, %+v", before.Accepted, after.Accepted, st)
	}
	m.accounts()
}

// TestPayerModel runs random purchases, uses, restarts, pauses and losses of the state file over a
// network that loses requests and responses. After each step the service has accepted no more than
// was signed, the chunksets that it sold cost exactly that, and no more than one purchase is in
// doubt.
// Invariant 142.
func TestPayerModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, serviceOptions{price: modelPrice})
		dir, number := testenv.MemoryDir(t), 0
		// rapid asks for the deadline of a *testing.T, which a bubble refuses.
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			number++
			m := newPayerModel(rt, s, dir, number)
			steps := m.steps()
			names := slices.Sorted(maps.Keys(steps))
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				steps[rapid.SampledFrom(names).Draw(rt, "step")](rt)
				m.accounts()
			}
			m.deliversAll()
		})
	})
}
