package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

// badNetwork returns a store with short timeouts that reaches its server through a proxy with
// toxics, and a second store with normal timeouts and a direct connection.
func badNetwork(t *testing.T, stall time.Duration) (s, aside *s3.Store, c s3.Config, proxy *toxiproxy.Proxy) {
	t.Helper()
	server := testenv.S3(t, testenv.S3Options{})
	proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy = toxiproxy.NewProxy(proxies, "s3", "127.0.0.1:0", server.Addr)
	testenv.OK(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	awaitProxy(t, proxy.Listen)
	c = freshPrefix(t, server)
	aside = mustOpen(t, c, s3.Options{})
	c.Endpoint = "http://" + proxy.Listen
	return mustOpen(t, c, s3.Options{Stall: stall}), aside, c, proxy
}

// awaitProxy waits until the proxy accepts connections, which on a busy machine may be after its
// Start has returned.
func awaitProxy(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(patience); ; runtime.Gosched() {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// toxic adds a toxic, in the JSON form of toxiproxy, until the returned function is called.
func toxic(t *testing.T, proxy *toxiproxy.Proxy, stream, kind string, toxicity float64, attributes string) (remove func()) {
	t.Helper()
	_, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name": "t", "type": %q, "stream": %q, "toxicity": %g, "attributes": {%s}}`, kind, stream, toxicity, attributes)))
	testenv.OK(t, err)
	return func() {
		testenv.Check(t, proxy.Toxics.RemoveToxic(context.Background(), "t"))
	}
}

// The stores' timeouts for faults that end connections and for faults that stall them. The latter
// is so short that a busy machine may exceed it: then the store need not succeed after the network
// has recovered.
const (
	patience = 20 * time.Second
	haste    = 200 * time.Millisecond
)

var networkFaults = []struct {
	name, stream, kind, attributes string
	stall                          time.Duration
}{
	{"no response, cut", "downstream", "limit_data", `"bytes": 0`, patience},
	{"response cut in its header", "downstream", "limit_data", `"bytes": 20`, patience},
	{"response cut in its body", "downstream", "limit_data", `"bytes": 100000`, patience},
	{"request cut in its header", "upstream", "limit_data", `"bytes": 50`, patience},
	{"request cut in its body", "upstream", "limit_data", `"bytes": 100000`, patience},
	{"reset", "downstream", "reset_peer", `"timeout": 0`, patience},
	{"response stalls", "downstream", "timeout", `"timeout": 0`, haste},
	{"request stalls", "upstream", "timeout", `"timeout": 0`, haste},
}

// TestBadNetwork applies each fault to every connection: calls must end without damage. Then the
// network recovers, and they must succeed.
func TestBadNetwork(t *testing.T) {
	for _, f := range networkFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel() // stalls take time
			s, aside, c, proxy := badNetwork(t, f.stall)
			there, data := newName(), content(1, 2*mib)
			wantErr(t, put(t, aside, there, data), nil)

			remove := toxic(t, proxy, f.stream, f.kind, 1, f.attributes)
			name := newName()
			endsWell(t, s, aside, name, data)
			if got, err := read(t.Context(), s, there, 0, int64(len(data))); err == nil && !bytes.Equal(got, data) {
				t.Error("wrong bytes")
			}
			if err := s.Delete(t.Context(), name); err != nil {
				wantErr(t, err, bytestore.ErrOverloaded)
			}
			remove()
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
			s, aside, _, proxy := badNetwork(t, f.stall)
			defer toxic(t, proxy, f.stream, f.kind, 0.5, f.attributes)()
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
	s, aside, _, proxy := badNetwork(t, patience)
	data := content(1, 10*mib)
	defer toxic(t, proxy, "downstream", "latency", 1, `"latency": 50, "jitter": 40`)()
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
