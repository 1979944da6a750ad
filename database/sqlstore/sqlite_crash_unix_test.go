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
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/database"
	"sluice/ledger"
	"sluice/metastore"
)

// runChild runs the job of a re-executed test binary on the database at path.
func runChild(job, path string) error {
	switch job {
	case "quota":
		return writeBeyondQuota(path)
	case "lease":
		return holdLease(path)
	case "queue":
		return queueForBlob(path)
	}
	s, err := OpenSQLite(path, Options{})
	if err != nil {
		return err
	}
	switch job {
	case "write":
		return writeForever(s)
	case "fail":
		return writeUntilStopped(s, path)
	}
	return fmt.Errorf("no job %q", job)
}

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
	s, err := OpenSQLite(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	expires := time.Now().Add(time.Hour)
	_, err = s.CreateSession(t.Context(), ledger.Session{ID: crashSession, Total: crashChunksets, Left: crashChunksets, Expires: expires}, nil)
	for g := range crashWriters {
		if err == nil {
			_, err = s.OpenChannel(t.Context(), ledger.Channel{
				ID: crashChannel(g), PaymentChannelID: int64(g), Receiver: "r", Asset: "a", Deposit: 1 << 62, Expires: expires,
			}, nil)
		}
	}
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
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
		e := metastore.Extent{Size: 3, Key: name, Created: time.Now()}
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

// The sizes of a use, and of a payment: each sells three chunksets at 3.
const crashUse, crashPay, crashPrice = 3, 10, 3

// payOne pays over the channel of the goroutine in one of three ways and returns the amount
// that is then accepted.
func payOne(ctx context.Context, s *Store, name string, g int) (int64, error) {
	c, err := s.Channel(ctx, crashChannel(g))
	if err != nil {
		return 0, err
	}
	pay := ledger.Payment{
		Sender: "s", Receiver: "r", Asset: "a", PaymentChannelID: int64(g), Sequence: c.Sequence + 1, Amount: c.Accepted + crashPay,
		Proof: []byte(name), Expires: time.Now().Add(time.Minute), UnsettledLimit: 1 << 62,
	}
	buy := ledger.Purchase{Payment: pay, Price: crashPrice, Session: ledger.Session{ID: name, Expires: time.Now().Add(time.Hour)}}
	switch c.Sequence % 3 {
	case 0:
		_, err = s.Buy(ctx, buy, nil)
	case 1:
		buy.Session.ID, buy.Refill = crashSession, true
		_, err = s.Buy(ctx, buy, &ledger.Idempotency{Scope: "buy", Key: name})
	default:
		if _, err = s.PayRead(ctx, ledger.ReadPurchase{Payment: pay, Price: crashPrice, Count: 3}); err == nil {
			err = s.Book(ctx, []ledger.Settlement{{Channel: c.ID, Sequence: pay.Sequence, Amount: pay.Amount}})
		}
	}
	return pay.Amount, err
}

// child starts a job in another process.
func child(t *testing.T, job, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$", path)
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// TestKilled repeatedly kills a process that writes, and checks everything that it had
// acknowledged.
func TestKilled(t *testing.T) {
	path := databasePath(t)
	prepareCrash(t, path)
	told := acknowledged{paid: map[string]int64{}}
	for range 5 {
		cmd, lines := child(t, "write", path)
		for n := 1 + rand.IntN(1500); lines.Scan(); n-- {
			if n == 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
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

// acknowledged is what the children reported as done.
type acknowledged struct {
	names []string         // of blobs
	uses  int64            // of the session
	paid  map[string]int64 // accepted, by channel
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
		amount, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		a.paid["channel"+words[1]] = amount
	default:
		t.Fatalf("the child printed %q", line)
	}
}

// verifyCrashed checks that the acknowledged blobs exist, and that counters and amounts are at
// least the acknowledged and at most the issued ones: every goroutine may have performed one call
// without reporting it. It records what it finds.
func verifyCrashed(t *testing.T, path string, told *acknowledged) {
	t.Helper()
	s, err := OpenSQLite(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
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
	session, err := s.Session(t.Context(), crashSession)
	if err != nil {
		t.Fatal(err)
	}
	if least := crashUse * told.uses; session.Used < least || session.Used > least+crashUse*crashWriters/4 {
		t.Fatalf("%d chunksets are used, %d acknowledged", session.Used, least)
	}
	told.uses = session.Used / crashUse
	for g := range crashWriters {
		c, err := s.Channel(t.Context(), crashChannel(g))
		if err != nil {
			t.Fatal(err)
		}
		if least := told.paid[c.ID]; c.Accepted < least || c.Accepted > least+crashPay || c.Accepted != crashPay*c.Sequence {
			t.Fatalf("%s: %d is accepted at sequence %d, %d acknowledged", c.ID, c.Accepted, c.Sequence, least)
		}
		told.paid[c.ID] = c.Accepted
	}
	if _, err := s.Purge(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if used := usageIsExact(t, s, crashOwner); used.Bytes < 3*int64(len(told.names)) {
		t.Fatalf("the usage of %d blobs of 3 bytes is %d", len(told.names), used.Bytes)
	}
	if found, err := s.Audit(t.Context()); err != nil || len(found) > 0 {
		t.Fatalf("the audit found %q, %v", found, err)
	}
	var check string
	err = s.db.read(t.Context(), func(t *tx) error {
		_, err := t.row("PRAGMA integrity_check", nil, &check)
		return err
	})
	if err != nil || check != "ok" {
		t.Fatalf("integrity check: %s, %v", check, err)
	}
}

// writeUntilStopped makes the file system refuse writes, by a limit on file sizes, while a
// store is open, and returns an error unless the store stops as it must.
func writeUntilStopped(s *Store, path string) error {
	ctx := context.Background()
	for i := range 50 {
		if err := s.SetProperty(ctx, fmt.Sprint("before", i), "v"); err != nil {
			return err
		}
		fmt.Println("acknowledged", fmt.Sprint("before", i))
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: syscall.RLIM_INFINITY & (1<<63 - 1)}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("after", i)
			err := s.SetProperty(ctx, name, strings.Repeat("v", int(info.Size())))
			switch {
			case err == nil:
				fmt.Println("acknowledged", name)
			case errors.Is(err, database.ErrUnknownOutcome):
				fmt.Println("unknown", name)
			default:
				fmt.Println("refused", name)
			}
		})
	}
	wg.Wait()
	if err := s.SetProperty(ctx, "last", "v"); !errors.Is(err, ErrStopped) {
		return fmt.Errorf("a write after an I/O error: %w", err)
	}
	if err := s.Err(); !errors.Is(err, ErrStopped) {
		return fmt.Errorf("Err after an I/O error: %w", err)
	}
	if _, err := s.Property(ctx, "before0"); err != nil {
		return fmt.Errorf("a read after an I/O error: %w", err)
	}
	fmt.Println("stopped")
	return nil
}

// writeBeyondQuota makes the file system refuse writes while a store is open, as if a quota
// were exceeded, and then accept them again.
func writeBeyondQuota(path string) (err error) {
	ctx := context.Background()
	e, err := openSQLite(path, EngineOptions{})
	if err != nil {
		return err
	}
	s := newStore(NewDB(e, nil), nil)
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, c := range []*sqliteConn{e.writer.conn, e.checkpointer.conn} {
		c.classifier = sqliteClassifier(func() error { return &os.PathError{Op: "write", Path: path, Err: syscall.EDQUOT} })
	}
	if err := s.SetProperty(ctx, "before", "v"); err != nil {
		return err
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	info, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: was.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for i := range 3 {
		err := s.SetProperty(ctx, fmt.Sprint("beyond", i), strings.Repeat("v", int(info.Size())))
		if !errors.Is(err, database.ErrNoSpace) {
			return fmt.Errorf("a write beyond the quota: %w", err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("a quota stopped the store: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	if err := s.SetProperty(ctx, "after", "v"); err != nil {
		return fmt.Errorf("a write when there is space again: %w", err)
	}
	fmt.Println("done")
	return nil
}

// TestQuota exceeds a quota in another process: writes then return ErrNoSpace, and refused writes
// have no effect.
func TestQuota(t *testing.T) {
	path := databasePath(t)
	cmd, lines := child(t, "quota", path)
	done := false
	for lines.Scan() {
		done = done || lines.Text() == "done"
	}
	if err := cmd.Wait(); err != nil || !done {
		t.Fatalf("done: %v, %v", done, err)
	}
	s := openAt(t, path, Options{})
	for name, want := range map[string]error{
		"before": nil, "after": nil,
		"beyond0": database.ErrNotFound, "beyond1": database.ErrNotFound, "beyond2": database.ErrNotFound,
	} {
		if _, err := s.Property(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("property %s: %v, want %v", name, err, want)
		}
	}
}

// TestStopsAfterIOError causes an I/O error in another process: the store refuses writes,
// continues to read, and works when it is opened again.
func TestStopsAfterIOError(t *testing.T) {
	path := databasePath(t)
	cmd, lines := child(t, "fail", path)
	facts := map[string]string{}
	stopped := false
	for lines.Scan() {
		what, name, _ := strings.Cut(lines.Text(), " ")
		if name != "" {
			facts[name] = what
		}
		stopped = stopped || what == "stopped"
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !stopped {
		t.Fatal("the store did not stop")
	}
	s := openAt(t, path, Options{})
	for name, what := range facts {
		_, err := s.Property(t.Context(), name)
		switch {
		case what == "acknowledged" && err != nil:
			t.Errorf("the acknowledged %s: %v", name, err)
		case what == "refused" && !errors.Is(err, database.ErrNotFound):
			t.Errorf("the refused %s: %v", name, err)
		}
	}
	if err := s.SetProperty(t.Context(), "again", "v"); err != nil {
		t.Errorf("a write to the reopened store: %v", err)
	}
}
