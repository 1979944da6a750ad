package node

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/ledger"
	"sluice/paychan"
	"sluice/storage"
	"sluice/test/testenv"
)

// The addresses that belong to the key 0x0101...01: as an Ed25519 key it has two.
const (
	legacyAddress = "0x7df415e5b21bdaa8b2946e8f1f4278b39904e51a69627494cd3e6f2996732fbd"
	singleAddress = "0xbbe6af385b3f36c98c46770ac79c0db8f3c7d2a58addf0f567dfd38f8f34a036"
	secpAddress   = "0x1a2a8411801595ff548728b09bee8bd2a717e6440d9ba6212910fc1c56cfe688"
)

// chainConfig returns a configuration with this receiver, a file with this key, and these
// fullnodes.
func chainConfig(t *testing.T, receiver, key string, urls ...string) *Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "receiver.key")
	testenv.OK(t, os.WriteFile(file, []byte(key+"\n"), 0o400))
	return &Config{
		Payments: Payments{Receiver: receiver, PaidOn: paychan.Chain{ID: 4, Module: paychan.DefaultModule}},
		Chain:    Chain{ReceiverKeyFile: file, ChainURLs: urls},
	}
}

// TestReceiverOfTheKey checks which receivers a key can have, and that no error repeats the key.
// Invariant 163.
func TestReceiverOfTheKey(t *testing.T) {
	digits := strings.Repeat("01", 32)
	for _, test := range []struct{ receiver, key, want, wantErr string }{
		{legacyAddress, digits, legacyAddress, ""},
		{singleAddress, digits, singleAddress, ""},
		{singleAddress, "ed25519-priv-0x" + digits, singleAddress, ""},
		{strings.ToUpper(legacyAddress[2:]), digits, legacyAddress, ""},
		{"", "secp256k1-priv-0x" + digits, secpAddress, ""},
		{secpAddress, "secp256k1-priv-0x" + digits, secpAddress, ""},
		{"", digits, "", "--receiver: is required with an Ed25519 key, which has two addresses: want " + legacyAddress + " or " + singleAddress},
		{secpAddress, digits, "", "--receiver " + secpAddress + ": is not an address of the key in --receiver-key-file: want " + legacyAddress + " or " + singleAddress},
		{legacyAddress, "secp256k1-priv-0x" + digits, "", "--receiver " + legacyAddress + ": is not an address of the key in --receiver-key-file: want " + secpAddress},
		{legacyAddress, digits + "01", "", "want a private key of 64 hexadecimal digits, with ed25519-priv-0x or secp256k1-priv-0x before them"},
	} {
		r, err := chainConfig(t, test.receiver, test.key, "http://127.0.0.1:1").openReceiver(time.Now)
		switch {
		case test.wantErr == "" && (err != nil || r.signer.Address().String() != test.want):
			t.Errorf("receiver %q, key %q: %v", test.receiver, test.key, err)
		case test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr) || strings.Contains(err.Error(), digits)):
			t.Errorf("receiver %q, key %q: error %v, want %q", test.receiver, test.key, err, test.wantErr)
		}
	}
}

// Invariant 163.
func TestSecretsOfTheChainAreForTheirOwner(t *testing.T) {
	c := chainConfig(t, legacyAddress, strings.Repeat("01", 32), "http://127.0.0.1:1")
	c.ChainAPIKeyFile = filepath.Join(t.TempDir(), "api.key")
	for text, want := range map[string]string{"canary": "", "": "want one API key", "two canaries": "want one API key", "canary\ncanary": "want one API key"} {
		testenv.OK(t, os.WriteFile(c.ChainAPIKeyFile, []byte(text), 0o600))
		_, err := c.openReceiver(time.Now)
		if want == "" != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canar")) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, file := range []string{c.ChainAPIKeyFile, c.ReceiverKeyFile} {
		testenv.OK(t, os.Chmod(file, 0o644))
		if _, err := c.openReceiver(time.Now); err == nil || !strings.Contains(err.Error(), "others may access it (mode 0644): chmod 600 "+file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// fullnodes is a transport to fullnodes in memory: each host's chain, or 0 if it does not answer.
type fullnodes map[string]*atomic.Int64

func (f fullnodes) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if id := f[r.URL.Host].Load(); id == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
	} else {
		_, _ = fmt.Fprintf(w, `{"chain_id":%d,"ledger_version":"1","ledger_timestamp":"1"}`, id)
	}
	return w.Result(), nil
}

// viewless is a transport to a fullnode that cannot read channels, and answers anything else unless
// it is down.
type viewless struct{ down bool }

func (f viewless) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if f.down || strings.HasSuffix(r.URL.Path, "/view") {
		w.WriteHeader(http.StatusServiceUnavailable)
	} else {
		_, _ = fmt.Fprint(w, `{"chain_id":4,"ledger_version":"1","ledger_timestamp":"1"}`)
	}
	return w.Result(), nil
}

// TestChannelReaderSkips: channels that cannot be read may be skipped if the chain answers
// anything else, and otherwise none can be read.
func TestChannelReaderSkips(t *testing.T) {
	of := ledger.Channel{Sender: "0x1", Receiver: "0x2", Asset: "0x3", PaymentChannelID: 7}
	invalid := of
	invalid.Sender = "none"
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			of         ledger.Channel
			down, want bool
		}{{of, false, true}, {of, true, false}, {invalid, false, true}} {
			c := chainConfig(t, legacyAddress, strings.Repeat("01", 32), "https://node.example/v1")
			c.chainTransport = viewless{test.down}
			read := testenv.Must(c.ChannelReader())(t)
			if readings, skip, err := read(t.Context(), test.of); err == nil || skip != test.want {
				t.Errorf("%+v: %v, %v, %v", test, readings, skip, err)
			}
		}
	})
}

// TestChainOfTheFullnodes checks that a start compares the chain of every fullnode, and goes on
// without those that do not answer.
// Invariant 163.
func TestChainOfTheFullnodes(t *testing.T) {
	for _, test := range []struct {
		chains [2]int64 // 0: does not answer
		want   string
		silent int
	}{
		{[2]int64{4, 4}, "", 0},
		{[2]int64{0, 4}, "", 1},
		{[2]int64{0, 0}, "", 2},
		{[2]int64{4, 2}, "--chain: URL 2 of 2 in --chain-url is a fullnode of another chain", 0},
		{[2]int64{2, 0}, "--chain: URL 1 of 2 in --chain-url is a fullnode of another chain", 1},
	} {
		nodes := fullnodes{"localhost:1": new(atomic.Int64), "localhost:2": new(atomic.Int64)}
		nodes["localhost:1"].Store(test.chains[0])
		nodes["localhost:2"].Store(test.chains[1])
		c := chainConfig(t, legacyAddress, strings.Repeat("01", 32), "http://localhost:1", "http://localhost:2")
		c.chainTransport = nodes
		r := testenv.Must(c.openReceiver(time.Now))(t)
		var log logBuffer
		err := r.start(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
		if got := fmt.Sprint(err); test.want != "" && got != test.want || test.want == "" && err != nil {
			t.Errorf("%v: %v, want %q", test.chains, err, test.want)
		}
		if len(r.silent) != test.silent || strings.Count(log.String(), "a fullnode does not answer") != test.silent {
			t.Errorf("%v: %d are silent, want %d: %s", test.chains, len(r.silent), test.silent, log.String())
		}
	}
}

// TestSilentFullnodesAreAskedAgain checks that a fullnode which was away at the start is compared
// when it is back.
// Invariant 163.
func TestSilentFullnodesAreAskedAgain(t *testing.T) {
	for back, want := range map[int64]string{4: "", 2: "a fullnode is not used"} {
		c := chainConfig(t, legacyAddress, strings.Repeat("01", 32), "http://127.0.0.1:1")
		synctest.Test(t, func(t *testing.T) {
			var id atomic.Int64
			c.chainTransport = fullnodes{"127.0.0.1:1": &id}
			r := testenv.Must(c.openReceiver(time.Now))(t)
			var log logBuffer
			to := slog.New(slog.NewTextHandler(&log, nil))
			testenv.OK(t, r.start(t.Context(), to))
			ctx, cancel := context.WithTimeout(t.Context(), 3*chainRetry+chainRetry/2)
			defer cancel()
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				r.watch(ctx, to)
			}()
			synctest.Wait()
			id.Store(back)
			<-stop
			if ctx.Err() != nil || len(r.silent) != 0 || strings.Contains(log.String(), "a fullnode is not used") != (want != "") {
				t.Errorf("chain %d: %d silent, %v: %s", back, len(r.silent), ctx.Err(), log.String())
			}
		})
	}
}

// openLocal opens a local node with the chain of c, and runs it until the test ends.
func openLocal(t *testing.T, c Config) *Node {
	t.Helper()
	c.Profile, c.Addr, c.Reads, c.PaidOn.Asset = Local, "127.0.0.1:0", access.ReadsPaid, paychan.DefaultAsset
	c.ChunksetPrice, c.UnsettledLimit = 1, 1000
	c.Location.Data = filepath.Join(t.TempDir(), "data")
	c.Storage = storage.Options{CacheSize: storage.MinCacheSize, StagingSize: storage.MinStagingSize, BlobCache: 1 << 20}
	c.MaxRequests, c.DrainDeadline, c.KeyLimits, c.AddressLimits = 10, time.Minute, keys.NoLimits(), keys.NoLimits()
	testenv.OK(t, c.Validate())
	n, err := Open(t.Context(), c, slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler))
	testenv.OK(t, err)
	signals, ended := make(chan os.Signal), make(chan error)
	go func() { ended <- n.Run(signals, nil) }()
	t.Cleanup(func() {
		signals <- os.Interrupt
		testenv.Check(t, <-ended)
	})
	return n
}

// TestReadinessDoesNotDependOnTheChain opens a node with a fullnode that does not answer.
// Invariant 163.
func TestReadinessDoesNotDependOnTheChain(t *testing.T) {
	c := chainConfig(t, legacyAddress, strings.Repeat("01", 32), "http://127.0.0.1:1")
	c.chainTransport = fullnodes{"127.0.0.1:1": new(atomic.Int64)}
	n := openLocal(t, *c)
	testenv.Check(t, n.ready(t.Context()))
	if p := n.payment(); p.Settlement != "chain" || p.Receiver != legacyAddress {
		t.Errorf("%+v", p)
	}
}
