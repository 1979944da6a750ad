package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	goclient "sluice/client"
	"sluice/e2e"
	"sluice/test/testenv"
)

// clientPurchases are purchases by the Go client in a process of its own. The process is the test
// binary, which finds them in an environment variable.
type clientPurchases struct {
	URL       string
	StateFile string
	Purchases int // of 2 chunksets
	Reads     int // for blob 0x1/paid
}

const purchasesVariable = "SLUICE_E2E_PURCHASES"

// runPurchases is the process's main function. It reports whether there are purchases.
func runPurchases() bool {
	text := os.Getenv(purchasesVariable)
	if text == "" {
		return false
	}
	var of clientPurchases
	err := json.Unmarshal([]byte(text), &of)
	if err == nil {
		err = of.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func (of *clientPurchases) Run(ctx context.Context) error {
	c, err := goclient.New(of.URL, goclient.Options{})
	if err != nil {
		return err
	}
	p, err := e2e.GoPayer(ctx, c, of.StateFile)
	if err != nil {
		return err
	}
	for range of.Purchases {
		if _, err := p.Buy(ctx, 2); err != nil {
			return err
		}
	}
	payment := &goclient.Payment{Payer: p, MaxChunksets: int64(of.Reads)}
	for range of.Reads {
		r, err := c.Get(ctx, "0x1", "paid", goclient.GetOptions{Payment: payment})
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
	}
	return nil
}

// Start starts the process.
func (of *clientPurchases) Start(t testing.TB) *exec.Cmd {
	t.Helper()
	return startSelf(t, purchasesVariable, of)
}

func finish(t testing.TB, command *exec.Cmd) {
	t.Helper()
	if err := command.Wait(); err != nil {
		t.Errorf("%v: %s", err, command.Stderr)
	}
}

// TestGoClientPays opens a channel, buys a session, reads, adds to the session and closes the
// channel, on a local instance and on a hosted network.
func TestGoClientPays(t *testing.T) {
	t.Parallel()
	const price = 3
	for _, profile := range []string{"local", "hosted"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			var s *e2e.Server
			writer, key := "", ""
			if profile == "local" {
				s = e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "3"}})
			} else {
				s = e2e.StartHosted(t, "paid", "--chunkset-price", "3")
				writer = s.NewKey("--scopes", "write", "--all-accounts")
				key = s.NewKey("--scopes", "channels", "--accounts", s.Payer(1).Signer.Address().String())
			}
			data := e2e.Content(1, 2*e2e.ChunksetSize+5)
			s.As(writer).Must(204, "PUT", e2e.BlobTarget("0x1", "paid"), data)
			c, p, _ := e2e.NewGoClient(t, s.URL, key)
			if profile == "hosted" { // without the key, no channel can be opened
				_, stranger, _ := e2e.NewGoClient(t, s.URL, "")
				if _, err := stranger.Ensure(t.Context(), 1); !errors.Is(err, goclient.ErrUnauthorized) {
					t.Errorf("without a key: %v", err)
				}
			}
			payment := &goclient.Payment{Payer: p, MaxChunksets: 7}
			r, err := c.Get(t.Context(), "0x1", "paid", goclient.GetOptions{Payment: payment})
			testenv.OK(t, err)
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) || payment.Charged() != 3 {
				t.Errorf("%d bytes, %v, charged %d", len(got), err, payment.Charged())
			}
			path := filepath.Join(t.TempDir(), "file")
			if _, err := c.DownloadFile(t.Context(), "0x1", "paid", path, goclient.DownloadOptions{GetOptions: goclient.GetOptions{Payment: payment}}); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) || payment.Charged() != 6 {
				t.Errorf("%d bytes, %v, charged %d", len(got), err, payment.Charged())
			}
			if _, err := c.Get(t.Context(), "0x1", "paid", goclient.GetOptions{Payment: payment}); !errors.Is(err, goclient.ErrPaymentRequired) {
				t.Errorf("beyond the limit: %v", err)
			}
			e2e.CheckGoPayer(t, s, p, price, 6)
			ch, err := p.CloseChannel(t.Context())
			if err != nil || ch.State != "closed" || ch.Refund != 20_000-ch.Accepted {
				t.Errorf("channel %+v, %v", ch, err)
			}
		})
	}
}

// TestGoClientProcessesShareAState runs processes that buy and read with one state file. The test
// kills the first one while the response to its purchase is on the way. The processes never sign
// conflicting numbers, and buy nothing twice.
func TestGoClientProcessesShareAState(t *testing.T) {
	t.Parallel()
	const price, processes, purchases, reads = 3, 3, 4, 5
	s := e2e.Start(t, e2e.Options{Flags: []string{"--reads", "paid", "--chunkset-price", "3"}})
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "paid"), []byte("hello"))
	p := e2e.NewCountingProxy(t, s)
	sold, killed := make(chan struct{}), make(chan struct{})
	p.Lose = func(r *http.Request) bool {
		if r.Method != "POST" || !strings.HasSuffix(r.URL.Path, "/v1/sessions") {
			return false
		}
		close(sold)
		<-killed
		return true
	}
	of := &clientPurchases{URL: p.URL, StateFile: filepath.Join(t.TempDir(), "payer.json"), Purchases: 1}
	first := of.Start(t)
	<-sold
	testenv.OK(t, first.Process.Kill())
	if err := first.Wait(); err == nil {
		t.Fatal("the process ended before it was killed")
	}
	close(killed)
	p.Mu.Lock()
	p.Lose = nil
	p.Mu.Unlock()

	of.Purchases, of.Reads = purchases, reads
	var running []*exec.Cmd
	for range processes {
		running = append(running, of.Start(t))
	}
	for _, command := range running {
		finish(t, command)
	}
	c, err := goclient.New(p.URL, goclient.Options{})
	testenv.OK(t, err)
	defer c.CloseIdleConnections()
	payer, err := e2e.GoPayer(t.Context(), c, of.StateFile)
	testenv.OK(t, err)
	e2e.CheckGoPayer(t, s, payer, price, processes*reads)
	st, err := payer.Status(t.Context())
	testenv.OK(t, err)
	// The killed process's purchase, and 2 chunksets for each further purchase; reads need no more.
	if want := uint64(price * 2 * (1 + processes*purchases)); st.Bought != want {
		t.Errorf("bought for %d, want %d", st.Bought, want)
	}
}
