package chain

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	goclient "sluice/client"
	"sluice/e2e"
	"sluice/test/testenv"
)

// reader reads a paid blob, again and again.
type reader struct {
	number uint64                // the payer's, and their channel's
	read   func(times int) error // reads the blob
	signed func() uint64         // returns the units that were signed in all
	reads  int                   // in all
	known  int                   // reads that the server's books have
}

// repeated returns a function that calls read, until it fails.
func repeated(read func() error) func(times int) error {
	return func(times int) error {
		for i := range times {
			if err := read(); err != nil {
				return fmt.Errorf("read %d of %d: %w", i+1, times, err)
			}
		}
		return nil
	}
}

// payers makes the readers of TestPayersGoOnAfterARestore, which read from url.
type payers struct {
	*testing.T
	s   *e2e.Server
	url string
	dir string
}

const restoredBlob = "a blob that is paid for"

// goPayer reads with the Go client. It buys two chunksets at a time.
func (p payers) goPayer(number uint64) *reader {
	c := testenv.Must(goclient.New(p.url, goclient.Options{}))(p)
	p.Cleanup(c.CloseIdleConnections)
	payer := p.payerOf(c, number)
	return &reader{number: number, signed: p.statusOf(payer), read: repeated(func() error {
		r, err := c.Get(p.Context(), "0x1", "paid", goclient.GetOptions{Payment: &goclient.Payment{Payer: payer, MaxChunksets: 1}})
		if err != nil {
			return err
		}
		got, err := io.ReadAll(r)
		if err == nil && string(got) != restoredBlob {
			err = fmt.Errorf("it read %q", got)
		}
		return err
	})}
}

// payerOf returns the payer over a state file of its own.
func (p payers) payerOf(c *goclient.Client, number uint64) *goclient.Payer {
	p.Helper()
	return testenv.Must(e2e.GoPayer(p.Context(), c, p.stateFile(number), func(o *goclient.PayerOptions) {
		o.Signer, o.Deposit, o.PaymentChannelID = p.s.Payer(byte(number)).Signer, 0, number
	}))(p)
}

func (p payers) stateFile(number uint64) string {
	return filepath.Join(p.dir, fmt.Sprintf("payer-%d.json", number))
}

func (p payers) statusOf(payer *goclient.Payer) func() uint64 {
	return func() uint64 {
		st := testenv.Must(payer.Status(p.Context()))(p)
		if st.Signed != st.Bought || st.Spent != st.Bought || st.Pending {
			p.Errorf("the payer has %+v", st)
		}
		return st.Signed
	}
}

// command reads with sluice cat --pay.
func (p payers) command(number uint64) *reader {
	account := e2e.SecretFile(p, strings.Repeat(fmt.Sprintf("%02x", number), 32)+"\n")
	c := testenv.Must(goclient.New(p.url, goclient.Options{}))(p)
	signed := func() uint64 { return p.statusOf(p.payerOf(c, number))() }
	return &reader{number: number, signed: signed, read: repeated(func() error {
		r := e2e.SluiceRuns(p, "cat", "0x1/paid", "--url", p.url, "--pay", "--max-price", "3", "--max-spend", "1000", "--purchase", "2",
			"--account-file", account, "--state-file", p.stateFile(number), "--payment-channel-id", fmt.Sprint(number))
		if r.Code != 0 || r.Stdout != restoredBlob {
			return fmt.Errorf("%+v", r)
		}
		return nil
	})}
}

// publicClient reads with the public client, which pays for each read. When the server sells no
// more before it has collected, it waits.
func (p payers) publicClient(c *e2e.Channel) *reader {
	info, _ := p.s.Info()
	var read int
	return &reader{number: c.Number, signed: func() uint64 { return uint64(3 * read) }, read: func(times int) error {
		for end := read + times; read < end; c.Settled() {
			var steps []any
			for i := read + 1; i <= end; i++ {
				steps = append(steps, map[string]any{"case": "read", "sequenceNumber": i, "amount": 3 * i})
			}
			lines := e2e.Script[struct{ SHA256, Error string }](p.T, "paidread.mjs", string(e2e.AsJSON(p, map[string]any{
				"baseUrl": p.url, "account": "0x1", "blobName": "paid", "scheme": "ed25519", "secret": strings.Repeat(fmt.Sprintf("%02x", c.Number), 32),
				"paymentChannelId": c.Number, "terms": info, "steps": steps,
			})))
			for i, line := range lines {
				if line.Error == "Failed to download blob: 402 Payment Required" && i > 0 {
					break
				}
				if line.SHA256 != e2e.Digest([]byte(restoredBlob)) {
					return fmt.Errorf("%+v", line)
				}
				read++
			}
		}
		return nil
	}}
}

// TestPayersGoOnAfterARestore replaces a server that collects on a chain by a restored backup of
// it. The Go client, the command, also one that began after the backup, and the public client read
// on with few requests. The chain, the server and the payers agree about the amounts, and nothing
// is paid twice.
func TestPayersGoOnAfterARestore(t *testing.T) {
	t.Parallel()
	const before, lost, after = 3, 6, 4
	chain := e2e.StartChain(t)
	s := e2e.Start(t, settleNow(chain, "--chunkset-price", "3").Tuned(e2e.Tuning{"SettleAt": 1, "StartingLimit": 12}))
	s.Must(204, "PUT", e2e.BlobTarget("0x1", "paid"), []byte(restoredBlob))
	var requests atomic.Int64
	front := httptest.NewServer(&httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		requests.Add(1)
		target, err := url.Parse(s.URL)
		testenv.Check(t, err)
		r.SetURL(target)
	}})
	defer front.Close()
	p := payers{t, s, front.URL, t.TempDir()}
	for number := range uint64(4) {
		chain.Fund(s.Payer(byte(number+1)), number+1, 1000)
	}
	readers := []*reader{p.goPayer(1), p.command(2), p.publicClient(chain.OpenOn(s, s.Payer(3), 3, 1000))}
	read := func(times int) {
		t.Helper()
		for _, r := range readers {
			requests.Store(0)
			if err := r.read(times); err != nil {
				t.Fatalf("payer %d: %v", r.number, err)
			}
			r.reads, r.known = r.reads+times, r.known+times
			if sent, most := requests.Load(), int64(5*times+20); sent > most {
				t.Errorf("payer %d has sent %d requests for %d reads, want at most %d", r.number, sent, times, most)
			}
		}
	}
	read(before)
	agree(t, chain, s, readers)
	place, to := filepath.Join(p.dir, "backups"), filepath.Join(testenv.MemoryDir(t), "restored")
	e2e.Prints(t, "backup", place, "--data", s.Data)
	readers = append(readers, p.command(4))
	read(lost)
	agree(t, chain, s, readers)
	s.Stop()
	e2e.Restored(t, nil, place, "--to", to)
	s.Data = to
	s.Restart()
	for _, r := range readers {
		r.known = max(0, r.known-lost)
	}
	for range 2 {
		read(after)
		agree(t, chain, s, readers)
	}
	s.Stop()
	e2e.CheckClean(t, nil, "--data", to)
}

// agree fails the test unless the chain, the server and each payer have the same amounts, and the
// payer has paid for the reads that the books have, and for none twice. Of two chunksets that were
// bought, one may be left. The books have the amounts that they have forgotten from the chain, as
// settled.
func agree(t *testing.T, chain *e2e.TestChain, s *e2e.Server, readers []*reader) {
	t.Helper()
	for _, r := range readers {
		signed := r.signed()
		var c e2e.ChannelState
		s.Eventually("the chain, the server and the payer do not agree", func() bool {
			var page struct{ Channels []e2e.ChannelState }
			s.Must(200, "GET", "/v1/channels", nil).Decode(t, &page)
			for _, c = range page.Channels {
				if c.PaymentChannelID == fmt.Sprint(r.number) {
					return c.Settled == fmt.Sprint(signed) && onChain(chain, t, r.number).Withdrawn == signed
				}
			}
			return false
		})
		if paid := int64(signed) - e2e.Number(t, c.Credit); e2e.Number(t, c.Accepted) > int64(signed) || paid < int64(3*r.known) || paid > int64(3*(r.reads+1)) {
			t.Errorf("payer %d has signed %d for %d reads, of which %d are known, and the channel is %+v", r.number, signed, r.reads, r.known, c)
		}
	}
}
