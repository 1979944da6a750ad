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
	"sluice/internal/testenv"
	"sluice/micropay"
)

// TestPayerModel runs random purchases, uses, restarts, pauses and losses of the state file over a
// network that loses requests and responses. After each step the service has accepted no more than
// was signed, the chunksets that it sold cost exactly that, and no more than one purchase is in
// doubt.
func TestPayerModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const price, maxPurchase = 3, 60
		s, err := openService(serviceOptions{price: price})
		testenv.OK(t, err)
		defer func() { check(s.close()) }()
		dir, number := testenv.MemoryDir(t), 0
		// rapid asks for the deadline of a *testing.T, which a bubble refuses.
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) {
			number++
			secret := [32]byte{byte(number), byte(number >> 8), 1}
			key, err := micropay.NewPrivateKey(micropay.KeyEd25519, secret[:])
			if err != nil {
				rt.Fatal(err)
			}
			signer, err := micropay.NewSigner(micropay.SchemeEd25519, key)
			if err != nil {
				rt.Fatal(err)
			}
			perfect, err := client.New("http://localhost:9090", client.Options{Transport: s})
			if err != nil {
				rt.Fatal(err)
			}
			faults := rapid.SampledFrom([][]fault{{pass}, {pass, pass, pass, lost}, {pass, pass, noAnswer}, {pass, pass, lost, noAnswer, cutBody}}).Draw(rt, "network")
			worst := false // the network works
			c, err := client.New("http://localhost:9090", client.Options{MaxAttempts: 2, Transport: &faulty{s, func(*http.Request) fault {
				if !worst {
					return pass
				}
				return rapid.SampledFrom(faults).Draw(rt, "fault")
			}}})
			if err != nil {
				rt.Fatal(err)
			}
			ch, err := perfect.OpenChannel(t.Context(), client.OpenChannelOptions{Sender: signer.Address().String()})
			if err != nil {
				rt.Fatal(err)
			}
			o := client.PayerOptions{Signer: signer, StateFile: filepath.Join(dir, "state"), MaxPrice: price, MaxSpend: 100_000, MaxPurchase: maxPurchase, Chunksets: 5, ChannelID: ch.ID}
			if err := os.Remove(o.StateFile); err != nil && !errors.Is(err, os.ErrNotExist) {
				rt.Fatal(err)
			}
			start := func() *client.Payer {
				p, err := c.NewPayer(t.Context(), o)
				if err != nil {
					rt.Fatal(err)
				}
				return p
			}
			p, signed, losses := start(), uint64(0), uint64(0)
			accounts := func() {
				st, err := p.Status(t.Context())
				if err != nil {
					rt.Fatal(err)
				}
				now, err := perfect.Channel(t.Context(), ch.ID)
				if err != nil {
					rt.Fatal(err)
				}
				var sold int64
				for _, s := range now.Sessions {
					session, err := perfect.Session(t.Context(), s.ID)
					if err != nil {
						rt.Fatal(err)
					}
					sold += session.ChunksetsTotal
				}
				signed = max(signed, st.Signed)
				if now.Accepted != uint64(sold)*price || now.Credit != 0 || now.Accepted > signed || st.Bought > now.Accepted {
					rt.Fatalf("accepted %d, credit %d for %d chunksets; signed %d, %+v", now.Accepted, now.Credit, sold, signed, st)
				}
				// Each loss of the state may leave one purchase behind that this state cannot know.
				if signed > now.Accepted+maxPurchase*(1+losses) {
					rt.Fatalf("accepted %d, and %d was signed", now.Accepted, signed)
				}
			}
			steps := map[string]func(*rapid.T){
				"ensure": func(rt *rapid.T) {
					worst = true
					_, _ = p.Ensure(t.Context(), rapid.Int64Range(1, 20).Draw(rt, "n")) // the accounts are checked
					worst = false
				},
				"buy": func(rt *rapid.T) {
					worst = true
					_, _ = p.Buy(t.Context(), rapid.Int64Range(1, 20).Draw(rt, "n"))
					worst = false
				},
				"use": func(rt *rapid.T) {
					if id := status(t, p).SessionID; id != "" {
						_, err := perfect.Use(t.Context(), id, client.UseOptions{})
						if err != nil && !errors.Is(err, client.ErrPaymentRequired) && !errors.Is(err, client.ErrGone) {
							rt.Fatal(err)
						}
					}
				},
				"restart": func(*rapid.T) { p = start() },
				"pause":   func(rt *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 90).Draw(rt, "seconds")) * time.Second) },
				"lose the state": func(rt *rapid.T) {
					if err := os.Remove(o.StateFile); err != nil && !errors.Is(err, os.ErrNotExist) {
						rt.Fatal(err)
					}
					losses++
				},
			}
			names := slices.Sorted(maps.Keys(steps))
			for range rapid.IntRange(1, 8).Draw(rt, "steps") {
				steps[rapid.SampledFrom(names).Draw(rt, "step")](rt)
				accounts()
			}
			// In the end everything that was signed last is delivered, exactly once.
			time.Sleep(2 * time.Minute)
			before, err := perfect.Channel(t.Context(), ch.ID)
			if err != nil {
				rt.Fatal(err)
			}
			pending := status(t, p).Pending
			if _, err := p.Buy(t.Context(), 5); err != nil {
				rt.Fatalf("at last: %v", err)
			}
			after, err := perfect.Channel(t.Context(), ch.ID)
			if err != nil {
				rt.Fatal(err)
			}
			if st := status(t, p); st.Bought != after.Accepted || st.Pending || !pending && after.Accepted != before.Accepted+5*price {
				rt.Fatalf("at last: accepted %d, then %d, %+v", before.Accepted, after.Accepted, st)
			}
			accounts()
		})
	})
}
