package logbuffer

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/test/testenv"
)

// output keeps each write.
type output struct {
	begins, letGo chan struct{} // for the first write; nil: it does not wait
	mu            sync.Mutex
	writes        []string
}

func (o *output) Write(p []byte) (int, error) {
	if o.begins != nil {
		close(o.begins)
		o.begins = nil
		<-o.letGo
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes = append(o.writes, string(p))
	return len(p), nil
}

// take returns the messages of each write since the last call.
func (o *output) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []string
	for _, one := range o.writes {
		var messages []string
		for line := range strings.Lines(one) {
			_, message, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "msg=")
			messages = append(messages, message)
		}
		all = append(all, strings.Join(messages, "+"))
	}
	o.writes = nil
	return strings.Join(all, " ")
}

func check(t *testing.T, o *output, want string) {
	t.Helper()
	testenv.Equal(t, o.take(), want, "written")
}

// TestFlushRules checks when lines are written: the requests' lines together within a second;
// urgent ones and the other log's immediately, after the lines that wait; and all at Flush.
// Invariant 134.
func TestFlushRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &output{}
		b := New(o, Soon)
		log, requests := b.Loggers(Text, nil)
		requests.Info("a")
		time.Sleep(Soon / 2)
		requests.Info("b")
		check(t, o, "")
		time.Sleep(Soon / 2)
		synctest.Wait()
		check(t, o, "a+b")

		time.Sleep(time.Hour) // nothing is written without lines
		synctest.Wait()
		check(t, o, "")

		requests.Info("c")
		requests.Warn("d")
		check(t, o, "c+d")
		requests.With("x", 1).WithGroup("g").Info("e")
		requests.With("x", 1).WithGroup("g").Error("f")
		check(t, o, "e x=1+f x=1")
		requests.Info("g")
		log.Info("h")
		check(t, o, "g+h")
		requests.Debug("below the level")

		requests.Info("i")
		testenv.Check(t, b.Flush())
		check(t, o, "i")
		testenv.Check(t, b.Flush())
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, o, "")
	})
}

// TestFullBufferIsWritten checks that lines do not wait for the second when they are many, and that
// a long line is not retained.
// Invariant 134.
func TestFullBufferIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &output{}
		b := New(o, Soon)
		line := []byte(strings.Repeat("x", maxBuffered/4-1) + "\n")
		for range 4 {
			check(t, o, "")
			if n, err := b.Write(line); n != len(line) || err != nil {
				t.Fatal(n, err)
			}
		}
		if len(o.writes) != 1 || len(o.writes[0]) != maxBuffered {
			t.Errorf("%d writes after %d bytes", len(o.writes), maxBuffered)
		}
		testenv.Must(b.Write(make([]byte, 1<<20)))(t)
		time.Sleep(Soon)
		synctest.Wait()
		if cap(b.lines) > 2*maxBuffered || cap(b.spare) > 2*maxBuffered {
			t.Errorf("the buffers keep %d and %d bytes", cap(b.lines), cap(b.spare))
		}
	})
}

// TestBlockedOutput checks that a blocked output delays no request until the buffer is full, and
// loses no line.
// Invariant 134.
func TestBlockedOutput(t *testing.T) {
	o := &output{begins: make(chan struct{}), letGo: make(chan struct{})}
	log, requests := New(o, Soon).Loggers(Text, nil)
	begins := o.begins
	var blocked sync.WaitGroup
	blocked.Go(func() { log.Info("first") })
	<-begins
	requests.Info("waits") // does not block
	blocked.Go(func() { requests.Info(strings.Repeat("x", maxBuffered)) })
	close(o.letGo)
	blocked.Wait()
	if got, want := strings.ReplaceAll(o.take(), " ", "+"), "first+waits+"+strings.Repeat("x", maxBuffered); got != want {
		t.Errorf("written: %.100q, want %.100q", got, want)
	}
}

// TestLinesStayWholeAndInOrder writes lines from many goroutines.
// Invariant 134.
func TestLinesStayWholeAndInOrder(t *testing.T) {
	const writers, lines = 8, 500
	o := &output{}
	b := New(o, Soon)
	log, requests := b.Loggers(Text, &slog.HandlerOptions{Level: slog.LevelDebug})
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range lines {
				logger := requests
				if i%50 == 0 {
					logger = log
				}
				logger.Debug(fmt.Sprintf("%d:%d", w, i))
			}
		})
	}
	group.Wait()
	testenv.OK(t, b.Flush())
	next := make([]int, writers)
	for message := range strings.FieldsSeq(strings.ReplaceAll(o.take(), "+", " ")) {
		var w, i int
		if _, err := fmt.Sscanf(message, "%d:%d", &w, &i); err != nil || i != next[w] {
			t.Fatalf("line %q, %v; want line %d of writer %d", message, err, next[w], w)
		}
		next[w]++
	}
	for w, n := range next {
		if n != lines {
			t.Errorf("%d lines of writer %d", n, w)
		}
	}
}
