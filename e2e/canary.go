package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// Watch plants secrets in requests and records all that the server outputs.
type Watch struct {
	T       *testing.T
	Secrets map[string]string // by description
	Seen    []Sighting
	Stalled []io.Closer
}

// Sighting is one of the server's outputs, with the secrets that it may contain.
type Sighting struct {
	Where, Text string
	May         []string
}

// NewWatch returns a watch without secrets.
func NewWatch(t *testing.T) *Watch { return &Watch{T: t, Secrets: map[string]string{}} }

// Keep registers a text as a secret.
func (w *Watch) Keep(label, text string) string {
	w.Secrets[label] = text
	return text
}

// Ask sends a request and records the response. The response may contain the secrets in may if the
// request succeeds, or if it is a 409 that shows the stored micropayment.
func (w *Watch) Ask(s *Server, may, method, target, body string, h ...string) Response {
	w.T.Helper()
	var content []byte
	if body != "" {
		content = []byte(body)
	}
	r := s.Do(method, target, content, h...)
	one := Sighting{Where: fmt.Sprintf("%d to %s %s %q", r.Status, method, target, h), Text: fmt.Sprintf("%q\n%s", r.Header, r.Body)}
	if r.Status < 300 || r.Status == 409 && strings.Contains(string(r.Body), "storedMicropayment") {
		one.May = strings.Split(may, ",")
	}
	w.Seen = append(w.Seen, one)
	return r
}

// Check searches all output for every secret, in every encoding.
func (w *Watch) Check() {
	w.T.Helper()
	const enough = 10 // characters that do not match by chance
	for label, secret := range w.Secrets {
		for _, one := range w.Seen {
			if slices.Contains(one.May, label) {
				continue
			}
			for _, form := range []string{secret, fmt.Sprintf("%x", secret), AsBase64([]byte(secret)), fmt.Sprintf("%d", []byte(secret))} {
				if found := Piece(strings.ToLower(one.Text), strings.ToLower(form), min(len(form), enough*len(form)/len(secret))); found != "" {
					w.T.Errorf("%s contains %q of the %s:\n%.500s", one.Where, found, label, one.Text)
					break
				}
			}
		}
	}
}

// CheckFiles fails the test if a file contains a secret.
func (w *Watch) CheckFiles(s *Server, whats ...string) {
	w.T.Helper()
	for name := range s.Files() {
		text, err := os.ReadFile(name)
		testenv.OK(w.T, err)
		for _, label := range whats {
			if bytes.Contains(text, []byte(w.Secrets[label])) {
				w.T.Errorf("%s contains the %s", name, label)
			}
		}
	}
}
