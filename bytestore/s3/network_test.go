package s3_test

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// badNetwork returns a store with short timeouts that reaches its server through a network with
// faults, and a second store with normal timeouts and a direct connection.
func badNetwork(t *testing.T, stall time.Duration) (s, aside *s3.Store, c s3.Config, network *fault.Network) {
	t.Helper()
	server := testenv.S3(t, testenv.S3Options{})
	network = fault.Before(t, server.Addr)
	c = freshPrefix(t, server)
	aside = mustOpen(t, c, s3.Options{})
	c.Endpoint = "http://" + network.Address()
	return mustOpen(t, c, s3.Options{Stall: stall}), aside, c, network
}

// The stores' timeouts for faults that end connections and for faults that stall them. The latter
// is so short that a busy machine may exceed it: then the store need not succeed after the network
// has recovered.
const (
	patience = 20 * time.Second
	haste    = 200 * time.Millisecond
)

var networkFaults = []struct {
	name    string
	trouble func(fault.Piece) fault.Trouble
	stall   time.Duration
}{
	{"no response, cut", fault.EndAfter(0, true, false), patience},
	{"response cut in its header", fault.EndAfter(20, true, false), patience},
	{"response cut in its body", fault.EndAfter(100_000, true, false), patience},
	{"request cut in its header", fault.EndAfter(50, false, false), patience},
	{"request cut in its body", fault.EndAfter(100_000, false, false), patience},
	{"reset", fault.EndAfter(0, true, true), patience},
	{"response stalls", stalls(true), haste},
	{"request stalls", stalls(false), haste},
}

// stalls returns the trouble that nothing arrives in a direction.
func stalls(answer bool) func(fault.Piece) fault.Trouble {
	return func(p fault.Piece) fault.Trouble {
		if p.Answer != answer {
			return fault.Trouble{}
		}
		return fault.Trouble{Kind: fault.Delay}
	}
}

// TestBadNetwork applies each fault to every connection: calls must end without damage. Then the
// network recovers, and they must succeed.
func TestBadNetwork(t *testing.T) {
	for _, f := range networkFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel() // stalls take time
			s, aside, c, network := badNetwork(t, f.stall)
			there, data := newName(), content(1, 2*mib)
			wantErr(t, put(t, aside, there, data), nil)

			network.Disturb(f.trouble)
			name := newName()
			endsWell(t, s, aside, name, data)
			if got, err := read(t.Context(), s, there, 0, int64(len(data))); err == nil && !bytes.Equal(got, data) {
				t.Error("wrong bytes")
			}
			if err := s.Delete(t.Context(), name); err != nil {
				wantErr(t, err, bytestore.ErrOverloaded)
			}
			network.Disturb(nil)
			if f.stall < patience {
				s = mustOpen(t, c, s3.Options{})
			}
			wantErr(t, put(t, s, newName(), data), nil)
			wantObject(t, s, there, data)
			wantErr(t, s.Delete(t.Context(), there), nil)
			wantErr(t, s.Ready(t.Context()), nil)
		})
	}
}

// endsWell puts data. A success must have stored the whole object. A failure must be retryable, and
// the object complete or absent.
func endsWell(t *testing.T, s, aside *s3.Store, name bytestore.Name, data []byte) {
	t.Helper()
	err := put(t, s, name, data)
	if err != nil && !errors.Is(err, bytestore.ErrOverloaded) {
		t.Errorf("put: %v", err)
	}
	got, readErr := read(t.Context(), aside, name, 0, int64(len(data)))
	switch {
	case errors.Is(readErr, bytestore.ErrNotFound):
		if err == nil {
			t.Errorf("%s was acknowledged but is missing", name)
		}
	case readErr != nil:
		t.Error(readErr)
	case !bytes.Equal(got, data):
		t.Errorf("%s is there with wrong bytes", name)
	}
}

// TestWorseNetwork applies a fault to half the connections during concurrent puts and reads.
func TestWorseNetwork(t *testing.T) {
	for _, f := range networkFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s, aside, _, network := badNetwork(t, f.stall)
			network.Disturb(func(p fault.Piece) fault.Trouble {
				if p.Conn%2 == 0 {
					return fault.Trouble{}
				}
				return f.trouble(p)
			})
			var callers sync.WaitGroup
			for i := range 4 {
				callers.Go(func() {
					for j := range 4 {
						endsWell(t, s, aside, newName(), content(byte(i*4+j), 300_000))
					}
				})
			}
			callers.Wait()
		})
	}
}

func TestLatency(t *testing.T) {
	s, aside, _, network := badNetwork(t, patience)
	data := content(1, 10*mib)
	network.Disturb(func(p fault.Piece) fault.Trouble {
		if !p.Answer {
			return fault.Trouble{}
		}
		return fault.Trouble{Kind: fault.Delay, Time: time.Duration(10+p.Sent%80) * time.Millisecond}
	})
	name := mustPut(t, s, data)
	wantObject(t, aside, name, data)
	wantObject(t, s, name, data)
}

// TestServerEndsAndReturns stops the server and starts it again with the same data.
func TestServerEndsAndReturns(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	s := mustOpen(t, freshPrefix(t, server), s3.Options{})
	name := mustPut(t, s, content(1, 1000))
	server.Stop()
	lost := newName()
	wantErr(t, put(t, s, lost, content(2, 1000)), bytestore.ErrOverloaded)
	wantErr(t, s.Ready(t.Context()), bytestore.ErrOverloaded)
	wantErr(t, s.Delete(t.Context(), name), bytestore.ErrOverloaded)
	wantErr(t, testenv.Error(read(t.Context(), s, name, 0, 1000)), bytestore.ErrOverloaded)
	server.Start()
	wantObject(t, s, name, content(1, 1000))
	wantAbsent(t, s, lost)
	mustPut(t, s, content(2, 1000))
	wantErr(t, s.Ready(t.Context()), nil)
}
