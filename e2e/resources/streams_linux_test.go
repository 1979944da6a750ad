package resources

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// rawFrame returns an encoded frame.
func rawFrame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}
	return append(binary.BigEndian.AppendUint32(head, stream), payload...)
}

// getBlock returns a GET's header block, as literals without indexing (RFC 7541, section 6.2.2).
func getBlock(f *e2e.Frames, target string) []byte {
	var block []byte
	for i, text := range []string{":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", f.S.Base + target} {
		if i%2 == 0 {
			block = append(block, 0)
		}
		block = append(append(block, byte(len(text))), text...)
	}
	return block
}

// hostileTargets have small responses, errors among them, and a larger one.
var hostileTargets = []string{"/openapi.yaml", "/v1/info", "/livez", "/readyz", "/v1/nothing", "/v1/blobs/0x1/nothing", "/v1/blobs/0xzz/x"}

// checkHostileMemory fails the test if the connections use too much memory, or if another client is
// not served.
func checkHostileMemory(s *e2e.Server) {
	s.T.Helper()
	// Responses that wait still count for the first address when its connections have just ended.
	transport := s.Options.Certs.Client(2).Transport.(*http.Transport)
	transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	other := *s
	other.Client = &http.Client{Transport: transport}
	other.Must(200, "GET", "/livez", nil)
	peak := peakMemory(s)
	s.T.Logf("peak memory: %d MiB", peak>>20)
	if peak > e2e.HostileMemory && !testenv.Race {
		s.T.Errorf("the process used %d MiB, limit %d MiB", peak>>20, e2e.HostileMemory>>20)
	}
}

// startHostile runs the test on two services: a hosted one, which has limits, and a local one,
// which has none.
func startHostile(t *testing.T, test func(t *testing.T, s *e2e.Server)) {
	t.Parallel()
	for name, flags := range map[string][]string{"local": nil, "hosted": e2e.HostedChoices("public")} {
		t.Run(name, func(t *testing.T) {
			if flags != nil {
				flags = append(flags, "--admin-addr", "off", "--drain-wait", "0s", "--max-connections-per-address", "1000")
			}
			// The limit is below hostileMemory, so that the peak depends less on when Go frees its
			// heap.
			s := e2e.Start(t, e2e.Options{Certs: e2e.NewCertificates(t), Flags: flags, Wrapper: []string{"env", "GOMEMLIMIT=200MiB"}})
			test(t, s)
		})
	}
}

// TestMemoryOfStalledStreams checks that a connection on which the client accepts no byte of any
// response uses a bounded amount of memory, however many streams it opens.
// Invariant 67.
func TestMemoryOfStalledStreams(t *testing.T) {
	startHostile(t, func(_ *testing.T, s *e2e.Server) {
		const streams = 250
		s.Hostile(func(f *e2e.Frames) error {
			var heads []byte
			for i := range uint32(streams) {
				heads = append(heads, rawFrame(e2e.FrameHeaders, e2e.FlagEndStream|e2e.FlagEndHeaders, 2*i+1, getBlock(f, hostileTargets[int(i)%len(hostileTargets)]))...)
			}
			if _, err := f.Connection.Write(heads); err != nil {
				return err
			}
			// This runs until the server has answered or refused each stream, or reads no more from
			// this connection.
			var answered [2 * streams]bool
			for left := streams; left > 0; {
				got, err := f.Next()
				if err != nil {
					return err
				}
				if got.Kind == e2e.FrameGoAway {
					return nil
				}
				if got.Kind != e2e.FrameHeaders && got.Kind != e2e.FrameReset || answered[got.Stream] {
					continue
				}
				answered[got.Stream] = true
				left--
			}
			return nil
		})
		checkHostileMemory(s)
	})
}

// TestMemoryOfRefusedBodies checks that refused requests' bodies use no memory while the client
// accepts no byte of any response.
// Invariant 67.
func TestMemoryOfRefusedBodies(t *testing.T) {
	startHostile(t, func(t *testing.T, s *e2e.Server) {
		const connections, streams, size = 6, 60, 1 << 20
		body := e2e.Content(1, size)
		for range connections {
			u := e2e.UploadsTo(s, 0)
			for i := range uint32(streams) {
				stream := 2*i + 1
				u.Request(stream, 0, "PUT", "/v1/nothing", "content-length", fmt.Sprint(10*size))
				u.Some(stream, body[:size-1])
			}
			answered := map[uint32]bool{}
			for len(answered) < streams {
				got, err := u.Next()
				testenv.OK(t, err)
				if got.Kind == e2e.FrameHeaders || got.Kind == e2e.FrameReset {
					answered[got.Stream] = true
				}
			}
		}
		checkHostileMemory(s)
	})
}

// TestMemoryOfRapidResets checks that streams which the client opens and immediately resets use no
// more memory than usual ones (CVE-2023-44487).
// Invariant 67.
func TestMemoryOfRapidResets(t *testing.T) {
	startHostile(t, func(_ *testing.T, s *e2e.Server) {
		const rounds, streams = 20, 200
		s.Hostile(func(f *e2e.Frames) error {
			ended := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, f.Connection)
				ended <- err
			}()
			cancelled := []byte{0, 0, 0, 8}
			var err error
			for round := range uint32(rounds) {
				var pairs []byte
				for i := range uint32(streams) {
					stream := 2*(round*streams+i) + 1
					pairs = slices.Concat(pairs, rawFrame(e2e.FrameHeaders, e2e.FlagEndStream|e2e.FlagEndHeaders, stream, getBlock(f, hostileTargets[int(i)%len(hostileTargets)])), rawFrame(e2e.FrameReset, 0, stream, cancelled))
				}
				if _, err = f.Connection.Write(pairs); err != nil {
					break
				}
			}
			return errors.Join(err, f.Connection.Close(), <-ended)
		})
		checkHostileMemory(s)
	})
}
