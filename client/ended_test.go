package client_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestEveryCodeOfAnEndedThing refuses requests that name a session, an upload, a channel or a blob
// with each code that means that it has ended, so that no code in the table can be missed.
func TestEveryCodeOfAnEndedThing(t *testing.T) {
	t.Parallel()
	for kind, test := range map[wire.Ended]func(*testing.T, wire.CodeRow){
		wire.EndedSession: replacesSession, wire.EndedUpload: beginsUploadAnew, wire.EndedChannel: opensAnotherChannel, wire.EndedBlob: blobDoesNotExist,
	} {
		codes := 0
		for _, row := range wire.Codes {
			if row.Ended&kind != 0 {
				codes++
				t.Run(string(row.Code), func(t *testing.T) { test(t, row) })
			}
		}
		testenv.Equal(t, codes >= 2, true, "codes of one kind")
	}
}

// refuseOnce returns a transport that refuses the first request that matches, once it is armed.
func refuseOnce(next http.RoundTripper, status int, code wire.Code, matches func(*http.Request) bool) (_ http.RoundTripper, arm func()) {
	armed := new(atomic.Bool)
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if matches(r) && armed.CompareAndSwap(true, false) {
			if r.Body != nil {
				check(r.Body.Close())
			}
			return problem(status, string(code), "")(r)
		}
		return next.RoundTrip(r)
	}), func() { armed.Store(true) }
}

func replacesSession(t *testing.T, row wire.CodeRow) {
	synctest.Test(t, func(t *testing.T) {
		transport, arm := refuseOnce(newService(t, serviceOptions{price: 3}), http.StatusPaymentRequired, row.Code, isRead)
		c := newClient(t, transport)
		want := paidBlob(t, c)
		p := newPayer(t, c, testenv.MemoryDir(t))
		s := testenv.Must(p.Ensure(t.Context(), 3))(t)
		arm()
		got, err := readAll(t, c, client.GetOptions{Payment: &client.Payment{Payer: p}})
		if err != nil || !bytes.Equal(got, want) || status(t, p).SessionID == s.ID {
			t.Errorf("%d bytes, %v, with the session %s after %s", len(got), err, status(t, p).SessionID, s.ID)
		}
	})
}

func beginsUploadAnew(t *testing.T, row wire.CodeRow) {
	f := newSourceFile(t)
	refused := false
	f.s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if refused || !strings.HasSuffix(r.URL.Path, "/parts/3") {
			next.ServeHTTP(w, r)
			return
		}
		refused = true
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(row.Status)
		testenv.Check(t, testenv.Error(w.Write([]byte(`{"code":"`+string(row.Code)+`"}`))))
	})
	testenv.OK(t, f.put(client.PutOptions{PartSize: 1000, Concurrency: 1}))
	f.checkStored()
}

func opensAnotherChannel(t *testing.T, row wire.CodeRow) {
	synctest.Test(t, func(t *testing.T) {
		transport, arm := refuseOnce(newService(t, serviceOptions{}), row.Status, row.Code, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/close") })
		p := newPayer(t, newClient(t, transport), testenv.MemoryDir(t))
		testenv.OK(t, testenv.Error(p.Ensure(t.Context(), 1)))
		before := status(t, p)
		arm()
		checkError(t, testenv.Error(p.CloseChannel(t.Context())), errAny, nil)
		testenv.OK(t, testenv.Error(p.Buy(t.Context(), 1)))
		if now := status(t, p); now.ChannelID == before.ChannelID || now.Spent <= before.Spent {
			t.Errorf("%+v after %+v", now, before)
		}
	})
}

func blobDoesNotExist(t *testing.T, row wire.CodeRow) {
	_, c := newScript(t, 1, problem(row.Status, string(row.Code), ""))
	checkError(t, testenv.Error(c.Get(t.Context(), "team", "a", client.GetOptions{})), fs.ErrNotExist, nil)
}
