package client_test

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"sluice/client"
	"sluice/test/testenv"
)

// runInBubble runs a subtest in a bubble of synctest.
func runInBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// newService opens a service until the test ends.
func newService(t testing.TB, o serviceOptions) *service {
	t.Helper()
	s := openService(o)
	testenv.AtEnd(t, s.close)
	return s
}

func newClient(t testing.TB, transport http.RoundTripper) *client.Client {
	t.Helper()
	return testenv.Must(client.New("http://localhost:9090", client.Options{Transport: transport}))(t)
}

// newScript returns a script and its client, which sends a request at most attempts times. 0: as
// often as usual. All steps must be requested until the test ends.
func newScript(t *testing.T, attempts int, steps ...step) (*script, *client.Client) {
	t.Helper()
	s := &script{t: t, steps: steps}
	t.Cleanup(func() { testenv.Equal(t, len(s.steps), 0, "responses that were not requested") })
	return s, testenv.Must(client.New("http://localhost:9090/pre/", client.Options{Transport: s, MaxAttempts: attempts}))(t)
}

// checkError fails the test unless err is want, which may be errAny, and is not other.
func checkError(t *testing.T, err, want, other error) {
	t.Helper()
	if !expected(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if other != nil && errors.Is(err, other) {
		t.Errorf("error %v is also %v", err, other)
	}
}

// checkMessage fails the test unless err is want, which may be errAny, and its message has all
// texts.
func checkMessage(t testing.TB, err, want error, texts ...string) {
	t.Helper()
	if !expected(err, want) {
		t.Errorf("error %v, want %v", err, want)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q, want %q", err, text)
		}
	}
}

// checkNoUploads fails the test if an upload of the account team is left.
func checkNoUploads(t testing.TB, c *client.Client) {
	t.Helper()
	for u, err := range c.Uploads(t.Context(), "team") {
		t.Errorf("an upload is left: %v, %v", u, err)
	}
}

// inCheck takes a call's results. The function that it returns returns the value, and ends the
// check of rapid if the call returned an error.
func inCheck[V any](v V, err error) func(*rapid.T) V {
	return func(t *rapid.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// checkContent fails the test unless the file has the content.
func checkContent(t testing.TB, path string, want []byte) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, %v, want %d", path, len(got), err, len(want))
	}
}

type step = func(*http.Request) (*http.Response, error)

var errAny = errors.New("any error")

// expected reports whether err is want, or any error if want is errAny.
func expected(err, want error) bool {
	if errors.Is(want, errAny) {
		return err != nil
	}
	return errors.Is(err, want)
}
