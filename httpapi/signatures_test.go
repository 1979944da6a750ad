package httpapi

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/database/whole"
	"sluice/internal/testenv"
	"sluice/micropay"
)

// manySignatures returns a purchase's JSON body, over a channel that does not exist, with a valid
// micropayment that has n signatures. Anybody can make such a body.
func manySignatures(t *testing.T, n int) string {
	t.Helper()
	var public []micropay.PublicKey
	var private []micropay.PrivateKey
	for i := range n {
		seed := make([]byte, ed25519.SeedSize)
		seed[0] = byte(i + 1)
		key, err := micropay.NewPrivateKey(micropay.KeyEd25519, seed)
		testenv.OK(t, err)
		private, public = append(private, key), append(public, key.Public())
	}
	signer, err := micropay.NewMultiSigner(micropay.SchemeMultiKey, public, n, private...)
	testenv.OK(t, err)
	parse := func(text string) micropay.Address {
		a, err := micropay.ParseAddress(text)
		testenv.OK(t, err)
		return a
	}
	signed, err := signer.Sign(micropay.Payment{
		Receiver: parse("0x1"), Asset: parse("0x2"), ModuleAddress: parse("0x3"),
		Amount: 10, PaymentChannelID: 1, Sequence: 1, Expiration: uint64(time.Now().Add(time.Hour).Unix()),
	})
	testenv.OK(t, err)
	return `{"micropaymentUpdate":"` + signed.Base64() + `"}`
}

// TestSignaturesCountAsRequests checks that a caller has no more signatures verified than requests
// permitted, however many signatures its micropayments have, with a key and without, and that one
// signature costs nothing.
func TestSignaturesCountAsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, seconds = 40, 5
		limits := keys.Limits{RequestsPerSecond: perSecond, ConcurrentRequests: 64}
		s := buildAt(t, time.Now, func(m whole.Database) whole.Database { return m }, keysOf, func(c *Config, _ *Server) {
			c.Limiter = access.NewLimiter(access.LimiterOptions{Address: limits, Key: limits})
		})
		_, key, err := access.Create(t.Context(), s.meta, access.NewKey{Scopes: []access.Scope{access.ScopeRead}})
		testenv.OK(t, err)
		buy := func(ctx context.Context, from, key, body string) int {
			r := httptest.NewRequestWithContext(ctx, "POST", "/v1/sessions", strings.NewReader(body))
			r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(from), 1).String()
			r.Header.Set("Content-Type", "application/json")
			if key != "" {
				r.Header.Set("X-Api-Key", key)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Code
		}
		for name, key := range map[string]string{"without a key": "", "with a key": key} {
			for _, n := range []int{32, 1} {
				body := manySignatures(t, n)
				time.Sleep(3 * time.Second) // until the bucket is full, and no request waits
				before := s.channels.Stats().Verified
				ctx, stop := context.WithTimeout(t.Context(), seconds*time.Second)
				sold, refused := 0, 0
				var mu sync.Mutex
				var callers sync.WaitGroup
				for range 8 {
					callers.Go(func() {
						for ctx.Err() == nil {
							status := buy(ctx, "192.0.2.1", key, body)
							mu.Lock()
							switch status {
							case http.StatusNotFound: // every check but the channel's has passed
								sold++
							case http.StatusTooManyRequests:
								refused++
							}
							mu.Unlock()
							time.Sleep(time.Millisecond)
						}
					})
				}
				callers.Wait()
				stop()
				got, most := s.channels.Stats().Verified-before, int64(perSecond*(seconds+1))
				if got > most || got < most*3/4 || sold == 0 {
					t.Errorf("%s: %d signatures of payments with %d were verified in %d s, want about %d; %d were served, %d refused", name, got, n, seconds, most, sold, refused)
				}
			}
		}
	})
}
