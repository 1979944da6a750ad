package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// spending is the spending that a command with --json reports.
type spending struct {
	Status, Spent, TotalSpent, SessionID, ChannelID, StateFile string
	ChunksetsCharged, ChunksetsInDoubt                         int64
}

// spendingOf returns the last line that a command with --json prints.
func spendingOf(t testing.TB, r e2e.Result) (last spending) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Status != "paid" {
		t.Fatalf("%+v: %v", r, err)
	}
	return last
}

// paidServer starts a server on which a chunkset costs 3, with blobs in account 0x1. pays returns
// the flags with which a command pays up to a sum.
func paidServer(t *testing.T, blobs map[string][]byte) (s *e2e.Server, pays func(maxSpend int) []string) {
	t.Helper()
	s = e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "3"}})
	for name, data := range blobs {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", name), data)
	}
	dir := t.TempDir()
	account := filepath.Join(dir, "account.key")
	e2e.Prints(t, "account", "new", account)
	return s, func(maxSpend int) []string {
		return []string{"--pay", "--account-file", account, "--state-file", filepath.Join(dir, "payer.json"), "--max-price", "3", "--max-spend", fmt.Sprint(maxSpend), "--deposit", "5000"}
	}
}

// TestPaidCommands reads paid blobs by every command that reads, within limits, with one session.
// Invariant 149.
func TestPaidCommands(t *testing.T) {
	t.Parallel()
	big := e2e.Content(1, 3*e2e.ChunksetSize/2)
	s, pays := paidServer(t, map[string][]byte{"a": []byte("text"), "big": big, "dir/x": []byte("of more than 16 bytes"), "dir/y": []byte("also of more than 16 bytes"), "dir/z": e2e.Content(3, 1000)})
	dir := t.TempDir()
	run := func(code int, stdout, stderr string, args ...string) e2e.Result {
		t.Helper()
		r := s.Sluice(args...)
		if r.Code != code || r.Stdout != stdout || !strings.Contains(r.Stderr, stderr) || stderr == "" && r.Stderr != "" {
			t.Errorf("%q: %+v, want exit code %d, %q, %q", args, r, code, stdout, stderr)
		}
		return r
	}
	paid := func(maxSpend int, args ...string) []string { return append(args, pays(maxSpend)...) }

	// Without the flags, an error names the flags to add, and the command writes nothing.
	const hint = "; --pay --max-price AMOUNT --max-spend AMOUNT buys the chunksets, and --session ID pays with a session of sluice pay\n"
	run(4, "", hint, "cat", "0x1/a")
	run(4, "", hint, "get", "0x1/a", dir)
	run(4, "", hint, "get", "0x1/a", "-")
	run(4, "", hint, "get", "-r", "0x1/dir/", dir)
	run(4, "", hint, "cp", ":0x1/a", dir)
	run(4, "", hint, "sync", ":0x1/dir/", dir)
	if files := filesWith(t, dir, ""); len(files) > 0 {
		t.Errorf("the folder has %q", files)
	}

	// No command pays beyond the limits.
	run(4, "", "MaxSpend is 2; --max-price and --max-spend set the budget\n", paid(2, "cat", "0x1/a")...)
	run(4, "", "0 chunksets charged; 0 units spent, 0 in all, of at most 2\n", paid(2, "cat", "0x1/a")...)
	run(4, "", "the greatest price is 2", append(paid(100, "cat", "0x1/a"), "--max-price", "2")...)
	run(4, "", "MaxChunksets 1 are charged or in use; --max-chunksets sets the limit", append(paid(100, "get", "0x1/big", dir), "--max-chunksets", "1")...)

	// Each command buys the chunksets that it needs, in the session that the first one bought.
	run(0, "text", "1 chunkset charged; 3 units spent, 3 in all, of at most 3\n", paid(3, "cat", "0x1/a")...)
	run(0, "text", "", append(paid(6, "cat", "0x1/a"), "-q")...)
	run(0, "", "0x1/big -> "+filepath.Join(dir, "big")+"\n2 chunksets charged; 6 units spent, 12 in all, of at most 100\n", paid(100, "get", "0x1/big", dir)...)
	first := spendingOf(t, s.Sluice(paid(100, "get", "-r", "0x1/dir", dir, "--json")...))
	if first.ChunksetsCharged != 3 || first.Spent != "9" || first.TotalSpent != "21" || first.SessionID == "" {
		t.Errorf("a folder: %+v", first)
	}
	again := spendingOf(t, s.Sluice(paid(100, "sync", ":0x1/dir", dir, "--json")...))
	if again.ChunksetsCharged != 0 || again.Spent != "0" || again.TotalSpent != "21" {
		t.Errorf("a file that is there already: %+v", again)
	}
	run(0, "", "1 chunkset charged; 3 units spent, 24 in all, of at most 100\n", paid(100, "cp", ":0x1/a", filepath.Join(dir, "copy"))...)
	run(0, "", "2 chunksets charged; 30 units spent, 54 in all, of at most 100\n", append(paid(100, "get", "0x1/big", filepath.Join(dir, "bought")), "--purchase", "10")...)
	last := spendingOf(t, s.Sluice(paid(54, "get", "0x1/big", filepath.Join(dir, "prepaid"), "--json")...))
	if last.ChunksetsCharged != 2 || last.Spent != "0" || last.TotalSpent != "54" || last.SessionID != first.SessionID {
		t.Errorf("with the rest of the session: %+v, not %+v", last, first)
	}
	session := s.SessionState(first.SessionID)
	if session.ChunksetsTotal != 18 || session.ChunksetsLeft != 6 {
		t.Errorf("the session is %+v", session)
	}
	run(0, "text", "1 chunkset charged\n", "cat", "0x1/a", "--session", first.SessionID)
	run(4, "", "(402 charge_above_limit, request ", "get", "0x1/big", "-", "--session", first.SessionID, "--max-chunksets", "1")
	run(4, "", "session_not_found", "cat", "0x1/a", "--session", "none")

	// A limit that does not suffice for everything: blobs that the command has paid for arrive.
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "dir/big"), e2e.Content(2, 8*e2e.ChunksetSize))
	part := t.TempDir()
	r := s.Sluice(paid(66, "get", "-r", "0x1/dir", part)...)
	if got := readTree(t, part); r.Code != 5 || !strings.Contains(r.Stderr, "MaxSpend is 66") || !strings.Contains(r.Stderr, "66 in all, of at most 66\n") || got["z"] == "" || got["big"] != "" {
		t.Errorf("%+v with %v", r, got)
	}
	if r := s.Sluice(paid(90, "get", "-r", "0x1/dir", part)...); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	if got := readTree(t, part); got["big"] != textOf(string(e2e.Content(2, 8*e2e.ChunksetSize))) || len(got) != 4 {
		t.Errorf("the folder has %v", got)
	}

	// A client cannot know a small blob's ETag without a payment, so the command copies even blobs
	// with equal sizes.
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "small/a"), []byte("TEXT"))
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "other/a"), []byte("text"))
	run(0, "", "0x1/small/a -> 0x1/other/a\n", paid(100, "sync", ":0x1/small/", ":0x1/other/")...)
	run(0, "TEXT", "", append(paid(100, "cat", "0x1/other/a"), "-q")...)
	got, err := os.ReadFile(filepath.Join(dir, "prepaid"))
	if err != nil || !bytes.Equal(got, big) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestPaidReadsOfFreeBlobs checks that a command that may pay pays nothing for free reads.
// Invariant 149.
func TestPaidReadsOfFreeBlobs(t *testing.T) {
	t.Parallel()
	_, pays := paidServer(t, nil)
	free := e2e.Start(t, e2e.Options{})
	free.Must(204, "PUT", e2e.BlobTarget("0x1", "a"), []byte("text"))
	if r := free.Sluice(append([]string{"cat", "0x1/a"}, pays(100)...)...); r.Code != 0 || r.Stdout != "text" || r.Stderr != "0 chunksets charged; 0 units spent, 0 in all, of at most 100\n" {
		t.Errorf("%+v", r)
	}
}

// TestPaidGetResumes interrupts a paid download. The next run must pay only for the missing bytes,
// with the same session.
// Invariant 149.
func TestPaidGetResumes(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	const ranges = 6 // of two chunksets
	data := e2e.Content(6, 2*ranges*e2e.ChunksetSize-3)
	s, pays := paidServer(t, map[string][]byte{"big": data})
	p := e2e.NewCountingProxy(t, s)
	dir := t.TempDir()
	line := append([]string{"get", "0x1/big", dir, "--json", "--url", p.URL}, pays(1000)...)
	// The command receives at most 4 ranges concurrently.
	interrupted := endAfter(p, t, ranges-1, syscall.SIGTERM, line...)
	before := spendingOf(t, interrupted)
	if interrupted.Code != 130 || interrupted.Stderr != "sluice: interrupted: "+resumable || before.ChunksetsCharged < ranges-1 {
		t.Fatalf("%+v, %+v", interrupted, before)
	}
	if _, err := os.Stat(filepath.Join(dir, "big")); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the file exists: %v", err)
	}
	r := e2e.SluiceRuns(t, line...)
	after := spendingOf(t, r)
	if r.Code != 0 || after.SessionID != before.SessionID || after.ChunksetsCharged == 0 || after.ChunksetsCharged > 2*(ranges-1) {
		t.Errorf("%+v, before %+v", r, before)
	}
	state := (&e2e.Channel{S: s, ID: after.ChannelID}).State()
	if state.Accepted != after.TotalSpent || state.Credit != "0" || len(state.Sessions) != 1 {
		t.Errorf("the channel is %s with %d sessions, and the command reports %+v", state.Money(), len(state.Sessions), after)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "big")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the file has %d bytes, %v, want %d", len(got), err, len(data))
	}
	if left := filesWith(t, dir, ""); len(left) != 1 {
		t.Errorf("the folder has %q", left)
	}
}
