package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"sluice/internal/testenv"
)

// The memory that the process may use for the given number of hostile HTTP/2 connections.
const (
	hostileConnections = 120
	hostileMemory      = 256 << 20
)

// rawFrame returns an encoded frame.
func rawFrame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

// getBlock returns a GET's header block, as literals without indexing (RFC 7541, section 6.2.2).
func (f *frames) getBlock(target string) []byte {
	var block []byte
	for i, text := range []string{":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", f.s.base + target} {
		if i%2 == 0 {
			block = append(block, 0)
		}
		block = append(append(block, byte(len(text))), text...)
	}
	return block
}

// hostileTargets have small responses, errors among them, and a larger one.
var hostileTargets = []string{"/openapi.yaml", "/v1/info", "/livez", "/readyz", "/v1/nothing", "/v1/blobs/0x1/nothing", "/v1/blobs/0xzz/x"}

// hostile opens connections, runs worst on each, and returns them. It ignores worst's errors,
// because the server may close the connection.
func (s *server) hostile(worst func(f *frames) error) []*frames {
	s.t.Helper()
	all := make([]*frames, hostileConnections)
	for i := range all {
		all[i] = s.dialFrames(0)
	}
	var work sync.WaitGroup
	for _, f := range all {
		work.Go(func() { _ = worst(f) })
	}
	work.Wait()
	return all
}

// checkHostileMemory fails the test if the connections use too much memory, or if another client is
// not served.
func (s *server) checkHostileMemory() {
	s.t.Helper()
	s.must(200, "GET", "/livez", nil)
	peak := s.peakMemory()
	s.t.Logf("peak memory: %d MiB", peak>>20)
	if peak > hostileMemory && !testenv.Race {
		s.t.Errorf("the process used %d MiB, limit %d MiB", peak>>20, hostileMemory>>20)
	}
}

// startHostile runs the test on two services: a hosted one, which has limits, and a local one,
// which has none.
func startHostile(t *testing.T, test func(t *testing.T, s *server)) {
	t.Parallel()
	for name, flags := range map[string][]string{"local": nil, "hosted": hostedChoices("public")} {
		t.Run(name, func(t *testing.T) {
			if flags != nil {
				flags = append(flags, "--admin-addr", "off", "--drain-wait", "0s", "--max-connections-per-address", "1000")
			}
			// The limit is below hostileMemory, so that the peak depends less on when Go frees its
			// heap.
			s := start(t, options{certs: newCertificates(t), flags: flags, wrapper: []string{"env", "GOMEMLIMIT=200MiB"}})
			test(t, s)
		})
	}
}

// TestMemoryOfStalledStreams checks that a connection on which the client accepts no byte of any
// response uses a bounded amount of memory, however many streams it opens.
func TestMemoryOfStalledStreams(t *testing.T) {
	startHostile(t, func(_ *testing.T, s *server) {
		const streams = 250
		s.hostile(func(f *frames) error {
			var heads []byte
			for i := range uint32(streams) {
				heads = append(heads, rawFrame(frameHeaders, flagEndStream|flagEndHeaders, 2*i+1, f.getBlock(hostileTargets[int(i)%len(hostileTargets)]))...)
			}
			if _, err := f.connection.Write(heads); err != nil {
				return err
			}
			// This runs until the server has answered or refused each stream, or reads no more from
			// this connection.
			var answered [2 * streams]bool
			for left := streams; left > 0; {
				got, err := f.next()
				if err != nil {
					return err
				}
				if got.kind == frameGoAway {
					return nil
				}
				if got.kind != frameHeaders && got.kind != frameReset || answered[got.stream] {
					continue
				}
				answered[got.stream] = true
				left--
			}
			return nil
		})
		s.checkHostileMemory()
	})
}

// TestMemoryOfRefusedBodies checks that refused requests' bodies use no memory while the client
// accepts no byte of the responses.
func TestMemoryOfRefusedBodies(t *testing.T) {
	startHostile(t, func(t *testing.T, s *server) {
		const connections, streams, size = 6, 60, 1 << 20
		body := content(1, size)
		for range connections {
			u := uploadsTo(s, 0)
			for i := range uint32(streams) {
				stream := 2*i + 1
				u.request(stream, 0, "PUT", "/v1/nothing", "content-length", fmt.Sprint(10*size))
				u.some(stream, body[:size-1])
			}
			answered := map[uint32]bool{}
			for len(answered) < streams {
				got, err := u.next()
				if err != nil {
					t.Fatal(err)
				}
				if got.kind == frameHeaders || got.kind == frameReset {
					answered[got.stream] = true
				}
			}
		}
		s.checkHostileMemory()
	})
}

// TestMemoryOfRapidResets checks that streams which the client opens and immediately resets use no
// more memory than others (CVE-2023-44487).
func TestMemoryOfRapidResets(t *testing.T) {
	startHostile(t, func(_ *testing.T, s *server) {
		const rounds, streams = 20, 200
		s.hostile(func(f *frames) error {
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, f.connection)
				ended <- err
			}()
			cancelled := []byte{0, 0, 0, 8}
			var err error
			for round := range uint32(rounds) {
				var pairs []byte
				for i := range uint32(streams) {
					stream := 2*(round*streams+i) + 1
					pairs = slices.Concat(pairs, rawFrame(frameHeaders, flagEndStream|flagEndHeaders, stream, f.getBlock(hostileTargets[int(i)%len(hostileTargets)])), rawFrame(frameReset, 0, stream, cancelled))
				}
				if _, err = f.connection.Write(pairs); err != nil {
					break
				}
			}
			return errors.Join(err, f.connection.Close(), <-ended)
		})
		s.checkHostileMemory()
	})
}
