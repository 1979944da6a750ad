package fault_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/test/fault"
	"sluice/test/testenv"
)

// echo returns a server that sends back everything that it gets.
func echo(t *testing.T) (address string) {
	t.Helper()
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	testenv.AtEnd(t, l.Close)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// TestNetwork checks how many bytes come back over a network with each trouble, and that a cut ends
// a connection on which nothing arrives.
func TestNetwork(t *testing.T) {
	n := fault.Before(t, echo(t))
	later := func(fault.Piece) fault.Trouble { return fault.Trouble{Kind: fault.Delay, Time: time.Millisecond} }
	never := func(fault.Piece) fault.Trouble {
		defer func() { go n.Cut() }()
		return fault.Trouble{Kind: fault.Delay}
	}
	for _, test := range []struct {
		trouble func(fault.Piece) fault.Trouble
		want    int
	}{
		{nil, 100_000}, {fault.EndAfter(100_000, false, false), 100_000}, {fault.EndAfter(70_000, true, false), 70_000},
		{fault.EndAfter(0, true, true), 0}, {fault.EndAfter(0, false, false), 0}, {later, 100_000}, {never, 0},
	} {
		n.Disturb(test.trouble)
		c := testenv.Must(net.Dial("tcp", n.Address()))(t)
		go func() { _, _ = io.WriteString(c, strings.Repeat("x", 100_000)) }()
		got, err := io.ReadFull(c, make([]byte, min(100_000, test.want+1)))
		testenv.Equal(t, got, test.want, "the bytes that come back")
		testenv.Equal(t, err != nil, test.want < 100_000, "the connection has ended")
		testenv.OK(t, c.Close())
	}
}

// TestKill checks that a killed process completes no step, except for the one whose reply it lost.
func TestKill(t *testing.T) {
	for kind, want := range map[fault.Kind]int{fault.Fail: 2, fault.Lose: 3} {
		done := 0
		p := &fault.Point[string]{K: 2, Kind: kind, Kills: true, Match: fault.Only("write")}
		for step := range 5 {
			err := p.Do("write", func() error { done++; return nil })
			testenv.Equal(t, errors.Is(err, fault.ErrFault), step >= 2, "step %d that %s", step, kind)
			testenv.OK(t, p.Do("read", func() error { return nil }))
		}
		testenv.Equal(t, done, want, "steps with an effect")
	}
}
