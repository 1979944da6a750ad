package httpapi

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/micropay"
	"sluice/test/testenv"
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
		key := testenv.Must(micropay.NewPrivateKey(micropay.KeyEd25519, seed))(t)
		private, public = append(private, key), append(public, key.Public())
	}
	signer := testenv.Must(micropay.NewMultiSigner(micropay.SchemeMultiKey, public, n, private...))(t)
	parse := func(text string) micropay.Address {
		a := testenv.Must(micropay.ParseAddress(text))(t)
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
// Invariant 56.
func TestSignaturesCountAsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, seconds = 40, 5
		limits := keys.Limits{RequestsPerSecond: perSecond, ConcurrentRequests: 64}
		s := build(t, setup{now: time.Now, keys: keysOf, config: func(c *Config) {
			c.Limiter = access.NewLimiter(access.LimiterOptions{Address: limits, Key: limits})
		}})
		key := testenv.Must(access.Create(t.Context(), s.meta, access.NewKey{Scopes: []access.Scope{access.ScopeRead}}))(t).Credential
		buy := func(ctx context.Context, key, body string) int {
			headers := append(keyHeader(key), "Content-Type", "application/json")
			return s.direct(ctx, "192.0.2.1:1", "POST", "/v1/sessions", body, headers...).StatusCode
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
							status := buy(ctx, key, body)
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
