package payments

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestCutReads cuts paid responses of five chunksets. The server must return the unsent chunksets
// once, and the client continues by range.
// Invariant 25.
func TestCutReads(t *testing.T) {
	t.Parallel()
	data := e2e.Content(1, 5*e2e.ChunksetSize)
	for _, test := range []struct {
		name     string
		flag     string
		partSize int
	}{
		{"blob of one part", "", 0},
		{"blob of many parts", "", 5 << 20},
		{"blob verified on each read", "--verify-ttl=0", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", strconv.Itoa(e2e.CutPrice)}}
			if test.flag != "" {
				o.Flags = append(o.Flags, test.flag)
			}
			s := e2e.Start(t, o)
			if test.partSize == 0 {
				s.Must(204, "PUT", e2e.BlobTarget("0x1", "cut"), data)
			} else {
				s.Upload("0x1", "cut", data, test.partSize)
			}
			s.CutReads(e2e.BlobTarget("0x1", "cut"), data, s.ReadSome)
		})
	}
}

// TestCutByShutdown checks a paid response that the drain deadline cuts: it costs only the
// chunksets that the server has sent, as when the client cuts it.
func TestCutByShutdown(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true, Flags: []string{"--reads", "paid", "--drain-deadline", "200ms"}})
	target := e2e.BlobTarget("0x1", "cut")
	s.Must(204, "PUT", target, e2e.Content(1, 5*e2e.ChunksetSize))
	c := s.Open(s.Payer(1), 1000)
	id := c.Buy(100).SessionID
	bySession, _ := s.ReadBegun(target, 1<<20, "Session-Id", id)
	byMicropayment, _ := s.ReadBegun(target, 1<<20, "X-Shelby-Micropayment", c.Next(5))
	s.Signal(syscall.SIGTERM)
	s.Wait()
	for _, connection := range []net.Conn{bySession, byMicropayment} {
		if err := connection.Close(); err != nil {
			t.Error(err)
		}
	}
	s.Restart()
	if left := s.Left(id); left != "99" {
		t.Errorf("%s chunksets left after one of five was sent, want 99", left)
	}
	if got := c.State().Money(); got != "deposit 1000 accepted 105 credit 4 sequence 2 open" {
		t.Errorf("the channel is %q after one of five was sent", got)
	}
}

// TestReturnsAreReplayedAtTheStart leaves the file with returns that a process could not make
// before it ended. The next process makes them before it serves.
func TestReturnsAreReplayedAtTheStart(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid"}})
	c := s.Open(s.Payer(1), 1000)
	id := c.Buy(10).SessionID
	s.Must(200, "POST", "/v1/sessions/"+id+"/use", nil)
	s.Must(200, "POST", "/v1/sessions/"+id+"/use", nil)
	s.Stop()
	folder := filepath.Join(s.Data, "returns")
	left := e2e.AsJSON(t, []any{map[string]any{"since": time.Now(), "name": "NAME", "count": 2, "session": id}})
	testenv.OK(t, errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(filepath.Join(folder, "ONE.json"), left, 0o600)))
	s.Restart()
	if got := s.Left(id); got != "10" {
		t.Errorf("%s chunksets left after the start, want 10", got)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 0 {
		t.Errorf("the folder still contains %v, %v", entries, err)
	}
}
