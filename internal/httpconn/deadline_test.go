package httpconn

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestDeadlineOfTheRuntime checks when the runtime's deadline is changed.
func TestDeadlineOfTheRuntime(t *testing.T) {
	var armed []time.Time
	arm := func(at time.Time) error { armed = append(armed, at); return nil }
	now := time.Now()
	in := func(d time.Duration) time.Time { return now.Add(d) }
	timed := newTimed(nil)
	d := &timed.reading
	set := func(at time.Time) {
		t.Helper()
		testenv.Check(t, d.set(at, arm))
	}
	begin := func(exact bool) {
		t.Helper()
		testenv.Check(t, d.begin(exact, arm))
	}
	expect := func(when string, want ...time.Time) {
		t.Helper()
		same := len(armed) == len(want)
		for i := range min(len(armed), len(want)) {
			same = same && armed[i].Equal(want[i])
		}
		if !same {
			t.Errorf("%s: the runtime has the deadlines %v, want %v", when, armed, want)
		}
		armed = nil
	}
	begin(false)
	d.end(nil)
	expect("without a deadline")
	set(in(2 * time.Minute))
	expect("no operation is in progress")
	begin(false)
	expect("an operation begins", in(2*time.Minute))
	set(in(time.Minute))
	expect("an earlier deadline during an operation", in(time.Minute))
	set(in(3 * time.Minute))
	expect("a later deadline during an operation")
	if d.end(errors.New("other")) {
		t.Error("an operation begins again after another error")
	}
	for range 3 { // requests
		for _, at := range []time.Time{in(2 * time.Minute), in(90 * time.Second), {}, {}, passed, {}} {
			set(at)
		}
		set(in(2 * time.Minute))
		begin(false)
		d.end(nil)
	}
	expect("requests before the timer has fired")
	begin(true)
	expect("an exact operation", in(2*time.Minute))
	set(in(3 * time.Minute))
	expect("a later deadline during an exact operation", in(3*time.Minute))
	set(passed)
	expect("a cut", passed)
	if d.end(os.ErrDeadlineExceeded) {
		t.Error("an operation begins again after its deadline")
	}
	testenv.Is(t, d.begin(false, arm), os.ErrDeadlineExceeded, "an operation after the deadline")
	expect("an operation after the deadline")
	set(time.Time{})
	begin(false)
	expect("no deadline after one that has passed", time.Time{})
	set(in(time.Hour))
	expect("a deadline during an operation", in(time.Hour))
	if !d.end(os.ErrDeadlineExceeded) {
		t.Error("an operation does not begin again if its timer fired too early")
	}
	begin(false)
	expect("an operation begins again", in(time.Hour))
}

// TestChangesOfDeadlines changes deadlines before and during a Read, and checks that it fails at
// the last deadline and not before.
func TestChangesOfDeadlines(t *testing.T) {
	const soon, late = 30 * time.Millisecond, 150 * time.Millisecond
	for name, change := range map[string]struct{ before, during []time.Duration }{ // 0: none
		"before":                 {before: []time.Duration{late}},
		"extended before":        {before: []time.Duration{soon, late}},
		"shortened before":       {before: []time.Duration{time.Hour, late}},
		"set during":             {during: []time.Duration{late}},
		"extended during":        {before: []time.Duration{soon}, during: []time.Duration{late}},
		"shortened during":       {before: []time.Duration{time.Hour}, during: []time.Duration{late}},
		"removed and set during": {before: []time.Duration{soon}, during: []time.Duration{0, late}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, _ := pair(t)
			begin := time.Now()
			set := func(all []time.Duration) {
				for _, one := range all {
					var at time.Time
					if one != 0 {
						at = begin.Add(one)
					}
					testenv.Check(t, conn.SetReadDeadline(at))
				}
			}
			set(change.before)
			result := make(chan error)
			go func() {
				_, err := conn.Read(make([]byte, 2))
				result <- err
			}()
			set(change.during)
			testenv.Is(t, <-result, os.ErrDeadlineExceeded, "Read")
			if passed := time.Since(begin); passed < late {
				t.Errorf("Read fails after %v, before its deadline", passed)
			}
		})
	}
}

// TestReadContinuesAfterItsTimer reads bytes that arrive after the timer has fired too early.
func TestReadContinuesAfterItsTimer(t *testing.T) {
	conn, client := pair(t)
	testenv.OK(t, conn.SetReadDeadline(time.Now().Add(time.Hour)))
	result := make(chan error)
	got := make([]byte, 100)
	go func() {
		_, err := io.ReadFull(conn, got)
		result <- err
	}()
	for i := range got {
		testenv.Check(t, conn.Transport.SetReadDeadline(passed))
		mustWrite(t, client, []byte{byte(i)})
	}
	if err := <-result; err != nil || got[99] != 99 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestWriteContinuesAfterItsTimer writes more than the buffers of the connection hold, while the
// timer fires too early again and again. The client must receive all bytes once.
func TestWriteContinuesAfterItsTimer(t *testing.T) {
	conn, client := pair(t)
	content := make([]byte, 32<<20)
	for i := range content {
		content[i] = byte(i ^ i>>8 ^ i>>16)
	}
	testenv.OK(t, conn.SetWriteDeadline(time.Now().Add(time.Hour)))
	written := make(chan error)
	go func() {
		n, err := conn.Write(content)
		if n != len(content) && err == nil {
			err = io.ErrShortWrite
		}
		written <- errors.Join(err, conn.CloseWrite())
	}()
	got := make([]byte, 0, len(content))
	for len(got) < len(content) {
		testenv.Check(t, conn.Transport.SetWriteDeadline(passed))
		n := testenv.Must(io.ReadFull(client, got[len(got):len(got)+(64<<10)]))(t)
		got = got[:len(got)+n]
	}
	if !bytes.Equal(got, content) {
		t.Error("the client received something else than was written")
	}
	if err := <-written; err != nil || conn.Sent() != int64(len(content)) {
		t.Errorf("%d bytes were sent, %v", conn.Sent(), err)
	}
}

// TestAbortedReadIsATimeout checks the error that net/http expects when it aborts its background
// read.
func TestAbortedReadIsATimeout(t *testing.T) {
	conn, _ := pair(t)
	testenv.OK(t, conn.SetReadDeadline(passed))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("Read returns %v", err)
	}
}
