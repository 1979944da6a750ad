package commands

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestPayCommand buys a session on the command line, reads with it, and closes the channel.
func TestPayCommand(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "3"}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "paid"), []byte("hello"))
	dir := t.TempDir()
	account, state := filepath.Join(dir, "account.key"), filepath.Join(dir, "payer.json")
	address := e2e.Prints(t, "account", "new", account)
	server := []string{"--url", s.URL}
	pay := func(more ...string) []string {
		return append(append([]string{"pay", "--account-file", account, "--state-file", state, "--chunksets", "10", "--max-price", "3", "--deposit", "500"}, server...), more...)
	}
	e2e.Refuses(t, 4, "the greatest price is 2", pay("--max-price", "2", "--max-spend", "100")...)
	e2e.Refuses(t, 4, "MaxSpend is 29", pay("--max-spend", "29")...)

	id := e2e.Prints(t, pay("--max-spend", "60")...)
	for range 2 {
		if r := s.Must(200, "GET", e2e.BlobTarget("0x1", "paid"), nil, "Session-Id", id); string(r.Body) != "hello" {
			t.Errorf("read %q", r.Body)
		}
	}
	if left := e2e.Prints(t, append([]string{"session", "use", id, "--idempotency-key", "one"}, server...)...); left != "7" {
		t.Errorf("%s left", left)
	}
	if left := e2e.Prints(t, append([]string{"session", "use", id, "--idempotency-key", "one"}, server...)...); left != "7" {
		t.Errorf("%s left after the same use", left)
	}
	var bought struct {
		SessionID, ChannelID, PaymentChannelID, Spent string
		ChunksetsLeft, ChunksetsTotal                 int64
	}
	testenv.OK(t, json.Unmarshal([]byte(e2e.Prints(t, pay("--max-spend", "60", "--json")...)), &bought))
	if bought.SessionID != id || bought.ChunksetsLeft != 10 || bought.ChunksetsTotal != 13 || bought.Spent != "39" {
		t.Errorf("the second payment: %+v", bought)
	}
	if again := e2e.Prints(t, pay("--max-spend", "60")...); again != id || s.SessionState(id).ChunksetsTotal != 13 {
		t.Errorf("session %s instead of %s", again, id)
	}
	e2e.Refuses(t, 4, "MaxSpend is 60", pay("--max-spend", "60", "--chunksets", "18")...)

	if shown := e2e.Prints(t, append([]string{"session", "show", id}, server...)...); !strings.Contains(shown, "chunksets left    10\n") {
		t.Errorf("session show: %s", shown)
	}
	shown := e2e.Prints(t, append([]string{"channel", "show", bought.ChannelID}, server...)...)
	for _, want := range []string{address, "deposit        500\n", "paid           39\n", "state          open\n", id + " with 10 chunksets left"} {
		if !strings.Contains(shown, want) {
			t.Errorf("channel show lacks %q:\n%s", want, shown)
		}
	}
	var deposited e2e.ChannelState
	deposit := append([]string{"channel", "deposit", bought.ChannelID, "20", "--idempotency-key", "may", "--json"}, server...)
	for range 2 {
		if err := json.Unmarshal([]byte(e2e.Prints(t, deposit...)), &deposited); err != nil || deposited.Deposit != "520" || deposited.Accepted != "39" || deposited.Sender != address {
			t.Errorf("deposit: %+v, %v", deposited, err)
		}
	}
	var closed struct{ State, Refund string }
	for range 2 {
		if err := json.Unmarshal([]byte(e2e.Prints(t, append([]string{"channel", "close", bought.ChannelID, "--json"}, server...)...)), &closed); err != nil || closed.State != "closed" || closed.Refund != "481" {
			t.Errorf("close: %+v, %v", closed, err)
		}
	}
	e2e.Refuses(t, 3, `the state of the channel is "closed"`, pay("--max-spend", "100", "--chunksets", "11")...)
	if err := json.Unmarshal([]byte(e2e.Prints(t, pay("--max-spend", "42", "--chunksets", "11", "--new-channel", "--json")...)), &bought); err != nil || bought.SessionID != id || bought.ChunksetsLeft != 11 || bought.Spent != "42" {
		t.Errorf("after another channel: %+v, %v", bought, err)
	}
	testenv.OK(t, os.Chmod(state, 0o644))
	e2e.Refuses(t, 1, "run chmod 600 "+state, pay("--max-spend", "100")...)
	e2e.Refuses(t, 3, "no.key", append([]string{"pay", "--account-file", filepath.Join(dir, "no.key"), "--max-price", "1", "--max-spend", "1"}, server...)...)
	e2e.Refuses(t, 4, "sluice pay buys a session", append([]string{"session", "create"}, server...)...)
	e2e.Refuses(t, 3, "session_not_found", append([]string{"session", "show", "none"}, server...)...)
	e2e.Refuses(t, 3, "channel_not_found", append([]string{"channel", "show", "none"}, server...)...)

	opened := e2e.Prints(t, append([]string{"channel", "open", "--sender", address, "--deposit", "77", "--expires", "7d"}, server...)...)
	if got := (&e2e.Channel{S: s, ID: opened}).State().Deposit; got != "77" {
		t.Errorf("the channel has the deposit %s", got)
	}
	own := filepath.Join(dir, "own.json")
	if err := json.Unmarshal([]byte(e2e.Prints(t, pay("--max-spend", "30", "--json", "--channel", opened, "--state-file", own)...)), &bought); err != nil || bought.ChannelID != opened {
		t.Errorf("a channel that is named: %+v, %v", bought, err)
	}
}

// TestSessionCommand creates and uses a local instance's session.
func TestSessionCommand(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{})
	id := e2e.Prints(t, "session", "create", "--user-identity", "alice\x1b[2J", "--url", s.URL)
	if left := e2e.Prints(t, "session", "use", id, "--url", s.URL); left != "999" {
		t.Errorf("%s left", left)
	}
	shown := e2e.Prints(t, "session", "show", id, "--url", s.URL)
	if !strings.Contains(shown, "alice") || strings.Contains(shown, "\x1b") {
		t.Errorf("session show: %q", shown)
	}
	var session e2e.SessionState
	if err := json.Unmarshal([]byte(e2e.Prints(t, "session", "show", id, "--json", "--url", s.URL)), &session); err != nil || session.ChunksetsLeft != 999 || session.ChunksetsTotal != 1000 {
		t.Errorf("session show: %+v, %v", session, err)
	}
}
