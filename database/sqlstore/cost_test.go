package sqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// costs counts the requests that calls make to an engine.
type costs struct {
	statements int // except those that begin and end a transaction
	writes     int // write transactions
}

// counted counts a store's calls. It must not be used concurrently.
func counted(s *Store, c *costs) {
	count := func(writes int) func(enginetest.Transactor) enginetest.Transactor {
		return func(run enginetest.Transactor) enginetest.Transactor {
			return func(ctx context.Context, fn func(*engine.Tx) error) error {
				c.writes += writes
				return run(ctx, func(t *engine.Tx) error {
					defer t.Observe(func(string, engine.Args) { c.statements++ })()
					return fn(t)
				})
			}
		}
	}
	enginetest.Hook(s.db, enginetest.Hooks{Write: count(1), WriteLocked: count(1), Read: count(0)})
}

// BenchmarkCost reports one call's cost for each operation: its statements, its write transactions
// (each is synced once), and the bytes written for it: by SQLite to its log and later to the
// database, by PostgreSQL to its log.
func BenchmarkCost(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) {
		benchCost(b, openAt(b, databasePath(b), Options{}), func() int64 { return writtenBytes(b) })
	})
	b.Run("postgres", func(b *testing.B) {
		dsn := testenv.Postgres(b) + "&pool_max_conns=4"
		plain := openNode(b, dsn)
		benchCost(b, openNode(b, dsn), func() int64 {
			return value(b, plain, `SELECT CAST(pg_current_wal_insert_lsn() - '0/0' AS BIGINT)`)
		})
	})
}

// writtenBytes returns the number of bytes that this process has written.
func writtenBytes(b *testing.B) int64 {
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatalf("the bytes that a process writes are known on Linux only: %v", err)
	}
	_, rest, _ := bytes.Cut(text, []byte("wchar: "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return testenv.Must(strconv.ParseInt(string(line), 10, 64))(b)
}

func benchCost(b *testing.B, s *Store, written func() int64) {
	k := &costBench{B: b, costs: &costs{}, store: s, written: written}
	counted(s, k.costs)
	k.blobs()
	k.uploads()
	k.sessions()
	k.nodes()
}

type costBench struct {
	*testing.B
	*costs
	store   *Store
	written func() int64
	calls   int // of all benchmarks, for unique names
}

// cost measures call. prepare runs before each call.
func (k *costBench) cost(name string, prepare, call func(ctx context.Context, i int) error) {
	k.Run(name, func(b *testing.B) {
		var statements, writes int
		var size int64
		for range b.N {
			k.calls++
			if prepare != nil {
				b.StopTimer()
				testenv.OK(b, prepare(b.Context(), k.calls))
				b.StartTimer()
			}
			before, old := *k.costs, k.written()
			testenv.OK(b, call(b.Context(), k.calls))
			statements += k.statements - before.statements
			writes += k.writes - before.writes
			size += k.written() - old
		}
		b.ReportMetric(float64(statements)/float64(b.N), "statements/op")
		b.ReportMetric(float64(writes)/float64(b.N), "writes/op")
		b.ReportMetric(float64(size)/float64(b.N), "written-B/op")
	})
}

func walletOf(i int) string { return fmt.Sprintf("0x%x", sha256.Sum256([]byte(strconv.Itoa(i)))) }

func photo(i int) string { return fmt.Sprintf("photos/2025/%02d/IMG_%06d.jpg", i/250+1, i) }

func (k *costBench) commit(ctx context.Context, name string, extents ...metastore.Extent) (metastore.Blob, error) {
	b := metastore.Blob{
		Account: walletOf(1), Name: name, Content: metastore.NewContentID(time.Now()),
		ContentType: "image/jpeg", Owner: "owner",
	}
	for i := range extents {
		extents[i].Offset = b.Size
		b.Size += extents[i].Size
	}
	return k.store.CommitBlob(ctx, b, extents, nil)
}

// objects returns n extents of 64 MiB.
func objects(n int) []metastore.Extent {
	list := make([]metastore.Extent, n)
	for i := range list {
		list[i] = metastore.Extent{
			Size: metastore.MaxExtentSize, Blocks: make([]uint32, 64),
			Object: string(bytestore.NewName(time.Now())), Created: time.Now(),
		}
	}
	return list
}

func inline(size int) []metastore.Extent {
	body := make([]byte, size)
	rand.Read(body) // incompressible
	return []metastore.Extent{{Size: int64(size), Blocks: []uint32{1}, Body: body}}
}

func (k *costBench) blobs() {
	var last metastore.Blob
	put := func(extents func() []metastore.Extent) func(context.Context, int) error {
		return func(ctx context.Context, i int) (err error) {
			last, err = k.commit(ctx, photo(i), extents()...)
			return err
		}
	}
	one := put(func() []metastore.Extent { return objects(1) })
	k.cost("put-inline-4KiB", nil, put(func() []metastore.Extent { return inline(4 << 10) }))
	k.cost("put-inline-16KiB", nil, put(func() []metastore.Extent { return inline(16 << 10) }))
	k.cost("put-1-extent", nil, one)
	k.cost("put-16-extents", nil, put(func() []metastore.Extent { return objects(16) }))
	k.cost("overwrite-1-extent", one, func(ctx context.Context, _ int) error {
		_, err := k.commit(ctx, last.Name, objects(1)...)
		return err
	})
	k.cost("get", one, func(ctx context.Context, _ int) error {
		b, err := k.store.Blob(ctx, last.Account, last.Name)
		if err == nil {
			_, err = k.store.Extents(ctx, b.Content, metastore.Position{}, 64)
		}
		return err
	})
	k.cost("list-1000", nil, func(ctx context.Context, _ int) error {
		_, err := k.store.ListBlobs(ctx, metastore.ListQuery{Account: last.Account, Limit: 1000})
		return err
	})
	remove := func(ctx context.Context, _ int) error {
		_, _, err := k.store.DeleteBlob(ctx, last.Account, last.Name, nil)
		return err
	}
	k.cost("delete", one, remove)
	to := metastore.BlobName{Account: walletOf(2), Name: photo(0)}
	copied := func(ctx context.Context, i int) error {
		to.Name = photo(i)
		from := metastore.BlobName{Account: last.Account, Name: last.Name}
		_, err := k.store.CopyBlob(ctx, metastore.Copy{From: from, To: metastore.Blob{Account: to.Account, Name: to.Name, Owner: "owner"}})
		return err
	}
	k.cost("copy-1-extent", one, copied)
	k.cost("copy-1TiB", put(func() []metastore.Extent { return objects(1 << 14) }), copied)
	oneCopied := func(ctx context.Context, i int) error { return errors.Join(one(ctx, i), copied(ctx, i)) }
	k.cost("copy-again", oneCopied, func(ctx context.Context, i int) error { return copied(ctx, -i) })
	k.cost("move", one, func(ctx context.Context, i int) error {
		from := metastore.BlobName{Account: last.Account, Name: last.Name}
		to := metastore.BlobName{Account: walletOf(2), Name: photo(i)}
		_, err := k.store.MoveBlob(ctx, metastore.Move{From: from, To: to, Owner: "owner"})
		return err
	})
	k.cost("delete-copied", oneCopied, remove)
	var garbage []metastore.ContentID
	k.cost("free-10", func(ctx context.Context, i int) error {
		garbage = nil
		for n := range 10 {
			if err := one(ctx, 10*i+n); err != nil {
				return err
			}
			if err := remove(ctx, i); err != nil {
				return err
			}
			garbage = append(garbage, last.Content)
		}
		return nil
	}, func(ctx context.Context, _ int) error {
		if _, err := k.store.GarbageObjects(ctx, garbage); err != nil {
			return err
		}
		return k.store.DropContents(ctx, garbage)
	})
}

func (k *costBench) uploads() {
	id := ""
	begin := func(ctx context.Context, i int) error {
		id = fmt.Sprintf("upload-%020d", i)
		_, err := k.store.BeginUpload(ctx, metastore.Upload{
			ID: id, Account: walletOf(1), Name: photo(i), Content: metastore.NewContentID(time.Now()),
			PartSize: 5 << 20, Owner: "owner",
		})
		return err
	}
	part := func(ctx context.Context, i int) error {
		e := objects(1)
		e[0].Part, e[0].Size, e[0].Blocks = i, 5<<20, e[0].Blocks[:5]
		return k.store.PutPart(ctx, id, metastore.Part{Index: i, Size: 5 << 20}, e)
	}
	k.cost("begin", nil, begin)
	k.cost("part", nil, part)
	k.cost("complete-10-parts", func(ctx context.Context, i int) error {
		err := begin(ctx, i)
		for n := 0; n < 10 && err == nil; n++ {
			err = part(ctx, n)
		}
		return err
	}, func(ctx context.Context, _ int) error {
		u, err := k.store.Upload(ctx, id)
		if err == nil {
			_, err = k.store.Parts(ctx, id, -1, 1000)
		}
		if err == nil {
			_, err = k.store.CompleteUpload(ctx, id, u.Revision, u.Bytes, 1, nil)
		}
		return err
	})
}

func (k *costBench) sessions() {
	later := time.Now().Add(time.Hour)
	create := func(ctx context.Context, i int) error {
		_, err := k.store.CreateSession(ctx, ledger.Session{ID: fmt.Sprintf("session-%020d", i), Total: 1 << 40, Left: 1 << 40, Expires: later}, nil)
		return err
	}
	first := 0
	k.cost("session", nil, create)
	k.cost("use", func(ctx context.Context, i int) error {
		if first > 0 {
			return nil
		}
		first = i
		return create(ctx, i)
	}, func(ctx context.Context, _ int) error {
		_, err := k.store.UseSession(ctx, fmt.Sprintf("session-%020d", first), 1, nil)
		return err
	})
	opened := false
	k.cost("buy", func(ctx context.Context, _ int) (err error) {
		if opened {
			return nil
		}
		opened = true
		_, err = k.store.OpenChannel(ctx, ledger.Channel{
			ID: "channel", PaymentChannelID: 1, Sender: walletOf(2), Receiver: walletOf(3), Asset: walletOf(4),
			Deposit: 1 << 62, Expires: later,
		}, nil)
		return err
	}, func(ctx context.Context, i int) error {
		_, err := k.store.Buy(ctx, ledger.Purchase{
			Offer: ledger.Offer{Payment: ledger.Payment{
				Sender: walletOf(2), Receiver: walletOf(3), Asset: walletOf(4), PaymentChannelID: 1,
				Sequence: int64(i), Amount: 10 * int64(i), Proof: make([]byte, 350), Expires: later,
			}, Policy: ledger.Policy{UnsettledLimit: 1 << 62}},
			Price: 1, Session: ledger.Session{ID: fmt.Sprintf("bought-%020d", i), Expires: later},
		}, nil)
		return err
	})
}

// nodes measures the calls that a node makes without requests.
func (k *costBench) nodes() {
	k.cost("keys-version", nil, func(ctx context.Context, _ int) error {
		_, err := k.store.KeysVersion(ctx)
		return err
	})
	k.cost("lease-refused", func(ctx context.Context, _ int) error {
		_, err := k.store.Lease(ctx, "name", "other", time.Hour)
		return err
	}, func(ctx context.Context, _ int) error {
		held, err := k.store.Lease(ctx, "name", "holder", time.Hour)
		if held {
			err = fmt.Errorf("two nodes hold one lease")
		}
		return err
	})
	k.cost("usage", nil, func(ctx context.Context, _ int) error {
		_, err := k.store.Usage(ctx, "nobody")
		return err
	})
}
