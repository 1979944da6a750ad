//go:build unix

package sqlstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// The rows that the children use: a session that is used and refilled, and a channel for each
// goroutine that pays.
const (
	crashSession   = "session"
	crashOwner     = "owner"
	crashChunksets = 1 << 40
	crashWriters   = 20
)

func crashChannel(g int) string { return fmt.Sprint("channel", g) }

// prepareCrash inserts the rows that the children use.
func prepareCrash(t *testing.T, path string) {
	t.Helper()
	s := testenv.Must(OpenSQLite(path, Options{}))(t)
	expires := time.Now().Add(time.Hour)
	_, err := s.CreateSession(t.Context(), ledger.Session{ID: crashSession, Total: crashChunksets, Left: crashChunksets, Expires: expires}, nil)
	for g := range crashWriters {
		if err == nil {
			_, err = s.OpenChannel(t.Context(), ledger.Channel{
				ID: crashChannel(g), PaymentChannelID: int64(g), Receiver: "r", Asset: "a", Deposit: 1 << 62, Expires: expires,
			}, nil)
		}
	}
	testenv.OK(t, errors.Join(err, s.Close()))
}

// writeForever commits from many goroutines and prints a line for each acknowledgement.
func writeForever(s *Store) error {
	ctx := context.Background()
	errs := make(chan error)
	for g := range crashWriters {
		go func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i)
				if err := writeOne(ctx, s, name, g); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

func writeOne(ctx context.Context, s *Store, name string, kind int) error {
	switch kind % 4 {
	case 0:
		if _, err := s.UseSession(ctx, crashSession, crashUse, nil); err != nil {
			return err
		}
		_, err := fmt.Println("use")
		return err
	case 1:
		c, err := payOne(ctx, s, name, kind)
		if err != nil {
			return err
		}
		_, err = fmt.Println("pay", kind, c)
		return err
	case 2:
		u, err := s.BeginUpload(ctx, metastore.Upload{ID: name, Account: "a", Name: name, Content: metastore.NewContentID(time.Now()), Owner: crashOwner})
		if err != nil {
			return err
		}
		e := metastore.Extent{Size: 3, Object: name, Created: time.Now()}
		if err := s.PutPart(ctx, name, metastore.Part{Size: 3}, []metastore.Extent{e}); err != nil {
			return err
		}
		if _, err := s.CompleteUpload(ctx, name, u.Revision+1, 3, 1, nil); err != nil {
			return err
		}
	default:
		b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(time.Now()), Size: 3, Owner: crashOwner}
		if _, err := s.CommitBlob(ctx, b, []metastore.Extent{{Size: 3, Body: []byte("abc")}}, nil); err != nil {
			return err
		}
	}
	_, err := fmt.Println("blob", name)
	return err
}

// A use's chunksets, a payment's amount, and the price: each payment sells three chunksets.
const crashUse, crashPay, crashPrice = 3, 10, 3

// payOne pays over the goroutine's channel in one of three ways and returns the amount that is then
// accepted.
func payOne(ctx context.Context, s *Store, name string, g int) (int64, error) {
	c, err := s.Channel(ctx, crashChannel(g))
	if err != nil {
		return 0, err
	}
	pay := ledger.Offer{Payment: ledger.Payment{
		Sender: "s", Receiver: "r", Asset: "a", PaymentChannelID: int64(g), Sequence: c.Sequence + 1, Amount: c.Accepted + crashPay,
		Proof: []byte(name), Expires: time.Now().Add(time.Minute),
	}, Policy: ledger.Policy{UnsettledLimit: 1 << 62}}
	buy := ledger.Purchase{Offer: pay, Price: crashPrice, Session: ledger.Session{ID: name, Expires: time.Now().Add(time.Hour)}}
	switch c.Sequence % 3 {
	case 0:
		_, err = s.Buy(ctx, buy, nil)
	case 1:
		buy.Session.ID, buy.Refill = crashSession, true
		_, err = s.Buy(ctx, buy, &database.Idempotency{Scope: "buy", Key: name})
	default:
		if _, err = s.PayRead(ctx, ledger.ReadPurchase{Offer: pay, Price: crashPrice, Count: 3}); err == nil {
			err = s.Book(ctx, []ledger.Settlement{{Channel: c.ID, Sequence: pay.Sequence, Amount: pay.Amount}})
		}
	}
	return pay.Amount, err
}

// runChild runs a re-executed test binary's job on the database at path.
func runChild(job, path string) error {
	if job != "write" {
		return fmt.Errorf("no job %q", job)
	}
	s, err := OpenSQLite(path, Options{})
	if err != nil {
		return err
	}
	return writeForever(s)
}

// child starts a job in another process.
func child(t *testing.T, job, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", path)
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	cmd.Stderr = os.Stderr
	out := testenv.Must(cmd.StdoutPipe())(t)
	testenv.OK(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

// TestKilled repeatedly kills a process that writes, and checks everything that it had
// acknowledged.
// Invariants 2, 23.
func TestKilled(t *testing.T) {
	path := databasePath(t)
	prepareCrash(t, path)
	told := acknowledged{paid: map[string]int64{}}
	for range 5 {
		cmd, lines := child(t, "write", path)
		for n := 1 + rand.IntN(1500); lines.Scan(); n-- {
			if n == 0 {
				testenv.OK(t, cmd.Process.Kill())
			}
			told.note(t, lines.Text())
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the process exited before it was killed")
		}
		verifyCrashed(t, path, &told)
	}
	if len(told.names) == 0 || told.uses == 0 || told.paid[crashChannel(1)] == 0 {
		t.Fatalf("%d blobs, %d uses and payments of %d were acknowledged", len(told.names), told.uses, told.paid[crashChannel(1)])
	}
}

// acknowledged has the calls that the children reported as done.
type acknowledged struct {
	names []string         // of blobs
	uses  int64            // the session's
	paid  map[string]int64 // accepted, by channel
}

// verifyCrashed checks that the acknowledged blobs exist, and that counters and amounts are at
// least the acknowledged and at most the issued ones: every goroutine may have performed one call
// without reporting it. It records its findings.
func verifyCrashed(t *testing.T, path string, told *acknowledged) {
	t.Helper()
	s := testenv.Must(OpenSQLite(path, Options{}))(t)
	defer func() {
		testenv.Check(t, s.Close())
	}()
	for _, name := range told.names {
		b, err := s.Blob(t.Context(), "a", name)
		if err != nil {
			t.Fatalf("acknowledged blob %s: %v", name, err)
		}
		extents, err := s.Extents(t.Context(), b.Content, metastore.Position{}, 10)
		if err != nil || len(extents) != 1 || extents[0].Size != 3 {
			t.Fatalf("extents of the acknowledged blob %s: %+v, %v", name, extents, err)
		}
	}
	session := testenv.Must(s.Session(t.Context(), crashSession))(t)
	if least := crashUse * told.uses; session.Used < least || session.Used > least+crashUse*crashWriters/4 {
		t.Fatalf("%d chunksets are used, %d acknowledged", session.Used, least)
	}
	told.uses = session.Used / crashUse
	for g := range crashWriters {
		c := testenv.Must(s.Channel(t.Context(), crashChannel(g)))(t)
		if least := told.paid[c.ID]; c.Accepted < least || c.Accepted > least+crashPay || c.Accepted != crashPay*c.Sequence {
			t.Fatalf("%s: %d is accepted at sequence %d, %d acknowledged", c.ID, c.Accepted, c.Sequence, least)
		}
		told.paid[c.ID] = c.Accepted
	}
	testenv.Must(s.Purge(t.Context(), 1000))(t)
	if used := usageIsExact(t, s, crashOwner); used.Bytes < 3*int64(len(told.names)) {
		t.Fatalf("the usage of %d blobs of 3 bytes is %d", len(told.names), used.Bytes)
	}
	audited(t, s)
	var check string
	err := s.db.Read(t.Context(), func(t *engine.Tx) error {
		_, err := t.Row("PRAGMA integrity_check", nil, &check)
		return err
	})
	if err != nil || check != "ok" {
		t.Fatalf("integrity check: %s, %v", check, err)
	}
}

func (a *acknowledged) note(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	switch words[0] {
	case "blob":
		a.names = append(a.names, words[1])
	case "use":
		a.uses++
	case "pay":
		amount := testenv.Must(strconv.ParseInt(words[2], 10, 64))(t)
		a.paid["channel"+words[1]] = amount
	default:
		t.Fatalf("the child printed %q", line)
	}
}
