package auditlog

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// output is a file that can be full, or blocked like a pipe without a reader.
type output struct {
	mu     sync.Mutex
	text   strings.Builder
	room   int           // bytes that can still be written; negative: any number
	gate   chan struct{} // a write waits until it is closed; nil: it does not
	closed bool
}

func (o *output) Write(p []byte) (int, error) {
	if o.gate != nil {
		<-o.gate
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.room >= 0 && len(p) > o.room {
		n := o.room
		o.text.Write(p[:n])
		o.room = 0
		return n, syscall.ENOSPC
	}
	if o.room >= 0 {
		o.room -= len(p)
	}
	o.text.Write(p)
	return len(p), nil
}

func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	return nil
}

func (o *output) setRoom(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.room = n
}

func (o *output) names(t *testing.T) string {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	return namesOf(t, o.text.String())
}

// namesOf returns the names in the lines; a torn line is "torn".
func namesOf(t *testing.T, text string) string {
	t.Helper()
	var names []string
	for line := range strings.Lines(text) {
		var entry struct{ Name string }
		if json.Unmarshal([]byte(line), &entry) != nil {
			entry.Name = "torn"
		}
		names = append(names, entry.Name)
	}
	return strings.Join(names, " ")
}

// open returns a log to these outputs: the first one is open, and each Reopen opens the next. A nil
// output cannot be opened.
func open(t *testing.T, outputs ...*output) (*Log, *strings.Builder) {
	t.Helper()
	var messages strings.Builder
	next := 0
	l := testenv.Must(start(func() (io.WriteCloser, bool, error) {
		o := outputs[next]
		next++
		if o == nil {
			return nil, false, errors.New("no such folder")
		}
		return o, false, nil
	}, slog.New(slog.NewTextHandler(&messages, nil))))(t)
	return l, &messages
}

func add(l *Log, names ...string) {
	for _, name := range names {
		l.Add(Entry{Access: Access{Action: Write, Account: "0x1", Name: name}})
	}
}

// TestLine compares whole lines: each is one object on one line, whatever its strings contain.
// Invariant 190.
func TestLine(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	for _, c := range []struct {
		entry Entry
		want  string
	}{
		{
			Entry{Access: Access{Action: Write, Account: "0x1", Name: "a/b", Bytes: 5}, Time: at, Status: 204, Key: "k", Client: "::1", Request: "R"},
			`{"time":"2030-01-02T02:04:05.000006Z","action":"write","account":"0x1","name":"a/b","bytes":5,"status":204,"key":"k","client":"::1","request":"R"}` + "\n",
		},
		{
			Entry{Access: Access{Action: Move, Account: "0x2", Name: "\"\n\x00\xff\u2028", FromAccount: "0x1", FromName: "é"}, Time: at, Status: 412, Error: "precondition_failed"},
			`{"time":"2030-01-02T02:04:05.000006Z","action":"move","account":"0x2","name":"\"\n\u0000` + "\ufffd\u2028" + `","fromAccount":"0x1","fromName":"é","bytes":0,"status":412,"error":"precondition_failed"}` + "\n",
		},
	} {
		got := string(c.entry.append(nil))
		testenv.Equal(t, got, c.want, "line")
		if !json.Valid([]byte(got)) || strings.Count(got, "\n") != 1 {
			t.Errorf("not one line of JSON: %q", got)
		}
	}
}

// TestBlockedPipe checks that no caller waits for a pipe without a reader, that the lines that wait
// are bounded, that each other line is counted, and that the log has one message.
// Invariant 191.
func TestBlockedPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &output{room: -1, gate: make(chan struct{})}
		l, messages := open(t, o)
		name := strings.Repeat("n", 1000)
		const lines = 3 * maxWaiting / 1000
		for range lines {
			add(l, name)
		}
		synctest.Wait()
		l.mu.Lock()
		if waiting := len(l.waiting); waiting > maxWaiting || waiting < maxWaiting-2000 {
			t.Errorf("%d bytes wait, want %d at most, and nearly as many", waiting, maxWaiting)
		}
		l.mu.Unlock()
		lost := l.Lost()
		if lost == 0 || strings.Count(messages.String(), "takes lines too slowly") != 1 {
			t.Errorf("%d lines are lost, and the log has %q", lost, messages)
		}
		close(o.gate)
		synctest.Wait()
		testenv.Equal(t, l.Written()+l.Lost(), lines, "lines")
		time.Sleep(quiet)
		add(l, "last")
		testenv.Check(t, l.Close())
		testenv.Equal(t, l.Lost(), lost, "lost lines")
		if !strings.Contains(messages.String(), "is written again") || !strings.HasSuffix(o.names(t), " last") || !o.closed {
			t.Errorf("after the pipe has a reader the log has %q", messages)
		}
	})
}

// TestFullDisk checks that lines which do not fit are counted, and that the line after a torn one
// is whole.
// Invariant 191.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &output{room: -1}
		l, messages := open(t, o)
		add(l, "a")
		synctest.Wait()
		o.setRoom(10)
		add(l, "b")
		synctest.Wait()
		add(l, "c")
		synctest.Wait()
		testenv.Equal(t, l.Lost(), 2, "lost lines")
		o.setRoom(-1)
		add(l, "d")
		testenv.Check(t, l.Close())
		testenv.Equal(t, o.names(t), "a torn d", "lines")
		testenv.Equal(t, [2]int64{l.Written(), l.Lost()}, [2]int64{2, 2}, "lines written and lost")
		testenv.Equal(t, strings.Count(messages.String(), "lines are lost"), 1, "messages")
	})
}

// TestPartOfABatchFits counts the lines of a batch that a full disk still takes.
// Invariant 191.
func TestPartOfABatchFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &output{room: -1, gate: make(chan struct{})}
		l, _ := open(t, o)
		add(l, "a")
		synctest.Wait() // it is being written
		add(l, "b", "c", "d")
		line := len((&Entry{Access: Access{Action: Write, Account: "0x1", Name: "a"}}).append(nil))
		o.setRoom(3*line + 1)
		close(o.gate)
		synctest.Wait()
		testenv.Equal(t, [2]int64{l.Written(), l.Lost()}, [2]int64{3, 1}, "lines written and lost")
		testenv.Check(t, l.Close())
		testenv.Equal(t, o.names(t), "a b c torn", "lines")
	})
}

// TestReopen checks that lines go to the new file, and to the old one while there is no new one.
// Invariant 191.
func TestReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, rotated := &output{room: -1}, &output{room: -1}
		l, messages := open(t, old, nil, rotated)
		for _, name := range []string{"a", "b"} {
			add(l, name)
			synctest.Wait()
			l.Reopen()
			synctest.Wait()
		}
		add(l, "c")
		testenv.Check(t, l.Close())
		testenv.Equal(t, old.names(t)+", "+rotated.names(t), "a b, c", "lines")
		if !old.closed || !rotated.closed || !strings.Contains(messages.String(), "no such folder") {
			t.Errorf("the old file is closed: %t, the new one: %t, messages: %s", old.closed, rotated.closed, messages)
		}
	})
}

// TestCloseIsBounded checks that a blocked pipe does not hold up the end of the process, and that
// lines after Close are counted as lost.
// Invariant 191.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &output{room: -1, gate: make(chan struct{})}
		l, _ := open(t, o)
		add(l, "a")
		begun := time.Now()
		if err := l.Close(); err == nil || time.Since(begun) != closeTimeout {
			t.Errorf("Close returned %v after %v", err, time.Since(begun))
		}
		add(l, "b")
		testenv.Equal(t, l.Lost(), 1, "lost lines")
		close(o.gate)
		synctest.Wait()
		testenv.Equal(t, o.names(t), "a", "lines")
	})
}

// TestTornFile checks that the line after a torn one, which a kill or a full disk has left, is
// whole.
// Invariant 191.
func TestTornFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	testenv.OK(t, os.WriteFile(name, []byte(`{"name":"a"}`+"\n"+`{"name":"to`), 0o600))
	l := testenv.Must(Open(name, slog.New(slog.DiscardHandler)))(t)
	add(l, "b")
	testenv.OK(t, l.Close())
	testenv.Equal(t, namesOf(t, string(testenv.Must(os.ReadFile(name))(t))), "a torn b", "lines")
}

// TestFile appends to a file that only its owner can read, and refuses one that cannot be opened.
// Invariant 191.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	for _, blob := range []string{"a", "b"} {
		l := testenv.Must(Open(name, slog.New(slog.DiscardHandler)))(t)
		add(l, blob)
		testenv.OK(t, l.Close())
	}
	testenv.Equal(t, namesOf(t, string(testenv.Must(os.ReadFile(name))(t))), "a b", "lines")
	if mode := testenv.Must(os.Stat(name))(t).Mode(); mode != 0o600 {
		t.Errorf("the file has the mode %v", mode)
	}
	if _, err := Open(filepath.Join(name, "below"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file below a file was opened")
	}
	var none *Log
	add(none, "a")
	none.Reopen()
	testenv.Equal(t, [2]int64{none.Written(), none.Lost()}, [2]int64{}, "lines of no log")
	testenv.OK(t, none.Close())
}

// TestLineAllocatesNothing checks that a line costs a request no allocation.
func TestLineAllocatesNothing(t *testing.T) {
	e := Entry{Access: Access{Action: Read, Account: "0x1", Name: "photos/a.jpg"}, Time: time.Now(), Status: 200, Key: "ABCDEFGHIJ", Client: "192.0.2.1", Request: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
	buffer := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { buffer = e.append(buffer[:0]) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
