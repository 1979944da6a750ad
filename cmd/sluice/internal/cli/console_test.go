package cli

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/test/testenv"
)

// transportFunc is a server in memory.
type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestWaitsAreAnnounced checks that a command announces once that it waits for the server, above
// the progress if there is any, and nothing of short waits. Invariant 152.
func TestWaitsAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, shown strings.Builder
		c := &Console{Err: &out}
		answers := []string{"2", "60", "200", ""}
		server := transportFunc(func(r *http.Request) (*http.Response, error) {
			answer := answers[0]
			answers = answers[1:]
			resp := &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}
			if answer != "" {
				resp.StatusCode = http.StatusServiceUnavailable
				resp.Header.Set("Retry-After", answer)
			}
			return resp, nil
		})
		on, err := NewClient(c, contexts.Server{URL: "http://localhost:9090"}, client.Options{Transport: server})
		testenv.OK(t, err)
		testenv.OK(t, on.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
		const reason = " because the server asked: localhost:9090 responded 503 Service Unavailable (503, to be repeated after "
		const waits = "sluice: waiting 1m0s" + reason + "1m0s)\nsluice: waiting 3m20s" + reason + "3m20s)\n"
		testenv.Equal(t, out.String(), waits, "stderr")
		time.Sleep(time.Hour)
		c.Shows(terminal.NewProgress(&shown, false))
		c.waits(time.Minute, errors.New("it is busy"))
		c.waits(time.Minute, errors.New("it is busy")) // of a parallel request
		c.Shows(nil)
		testenv.Equal(t, shown.String(), "waiting 1m0s because the server asked: it is busy\n", "shown")
	})
}

// TestSlowServersAreAnnounced checks that a command names the request for which it waits after 3
// seconds without a byte, once for all requests.
func TestSlowServersAreAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c := &Console{Err: &out}
		server := transportFunc(func(r *http.Request) (*http.Response, error) {
			time.Sleep(4 * time.Second)
			return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		})
		on := testenv.Must(NewClient(c, contexts.Server{URL: "http://localhost:9090"}, client.Options{Transport: server}))(t)
		testenv.OK(t, on.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
		testenv.OK(t, on.Delete(t.Context(), "team", "a", client.DeleteOptions{}))
		testenv.Equal(t, out.String(), "sluice: waiting for the server's response: delete a blob\n", "stderr")
	})
}
