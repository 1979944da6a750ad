package sqlstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/access/places/placestest"
	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestDumpKnowsEveryTable: a migration that adds a table or a column must declare whether it
// is dumped.
// Invariant 120.
func TestDumpKnowsEveryTable(t *testing.T) {
	for name, s := range map[string]*Store{"SQLite": openAt(t, databasePath(t), Options{}), "PostgreSQL": openAtPostgres(t)} {
		have := tablesOf(t, s, name == "SQLite")
		known := map[string][]string{}
		for _, tb := range dumped {
			known[tb.name] = slices.Sorted(slices.Values(tb.columns()))
		}
		for name, columns := range have {
			if slices.Contains(notDumped, name) {
				continue
			}
			if !slices.Equal(columns, known[name]) {
				t.Errorf("%s has the columns %v, and %v are dumped", name, columns, known[name])
			}
			delete(known, name)
		}
		if len(known) > 0 {
			t.Errorf("%s lacks the tables %v", name, slices.Collect(maps.Keys(known)))
		}
	}
}

// tablesOf returns a database's tables and views, and their columns, sorted.
func tablesOf(t *testing.T, s *Store, sqlite bool) map[string][]string {
	t.Helper()
	query := `SELECT CAST(table_name AS TEXT)::BYTEA, CAST(column_name AS TEXT)::BYTEA FROM information_schema.columns WHERE table_schema = current_schema()`
	if sqlite {
		query = `SELECT CAST(m.name AS BLOB), CAST(c.name AS BLOB) FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type IN ('table', 'view')`
	}
	tables := map[string][]string{}
	testenv.OK(t, s.db.Read(t.Context(), func(tx *engine.Tx) error {
		var name, column string
		return tx.Each(query, nil, engine.Args{&name, &column}, func() error {
			tables[name] = append(tables[name], column)
			return nil
		})
	}))
	for _, columns := range tables {
		slices.Sort(columns)
	}
	return tables
}

// filler calls a store's methods and gathers their errors.
type filler struct {
	*Store
	ctx  context.Context
	errs []error
}

// deleted stores a blob and deletes it soon afterwards.
func (f *filler) deleted(account, name string) {
	f.blob(account, name)
	_, _, err := dbtest.Remove(f.ctx, f, account, name, nil)
	f.note(nil, err)
}

func (f *filler) note(_ any, err error) { f.errs = append(f.errs, err) }

func (f *filler) blob(account, name string, extents ...metastore.Extent) {
	b := metastore.Blob{Account: account, Name: name, Content: metastore.NewContentID(time.Now()), Owner: "owner"}
	for _, e := range extents {
		b.Size += e.Size
	}
	if len(name)%2 == 0 {
		b.SHA256, b.ContentType, b.Expires = bytes.Repeat([]byte{7}, 32), "text/plain", time.Now().Add(time.Hour)
		b.Metadata = "a: b\x00\xff"
	}
	f.note(f.CommitBlob(f.ctx, b, extents, nil))
}

func bodyExtent(text string) metastore.Extent {
	return metastore.Extent{Size: int64(len(text)), Blocks: []uint32{1}, Body: []byte(text)}
}

func objectExtent(key string, size int64) metastore.Extent {
	return metastore.Extent{Size: size, Blocks: []uint32{1, 0xffffffff}, Object: key, Created: time.Now()}
}

func (f *filler) upload(id string, parts int) {
	u, err := f.BeginUpload(f.ctx, metastore.Upload{ID: id, Account: "a", Name: id, Content: metastore.NewContentID(time.Now()), PartSize: 2, Owner: "owner", Metadata: id})
	f.note(u, err)
	const atOnce = 64 // concurrent calls share commits
	errs := make([]error, atOnce)
	var senders sync.WaitGroup
	for first := range min(atOnce, parts) {
		senders.Go(func() {
			for i := first; i < parts; i += atOnce {
				e := bodyExtent("xy")
				if i%2 == 0 {
					e = objectExtent(fmt.Sprintf("%02x-%s-%d", i%256, id, i), 2)
				}
				e.Part = i
				err := f.PutPart(f.ctx, id, metastore.Part{Index: i, Size: 2, CRC64: uint64(i) << 60}, []metastore.Extent{e})
				errs[first] = errors.Join(errs[first], err)
			}
		})
	}
	senders.Wait()
	f.note(nil, errors.Join(errs...))
}

// uneven completes an upload with every other one of its parts.
func (f *filler) uneven(id string, parts int) {
	u, err := f.BeginUpload(f.ctx, metastore.Upload{ID: id, Account: "a", Name: id, Content: metastore.NewContentID(time.Now()), Owner: "owner"})
	f.note(u, err)
	var chosen []metastore.Part
	for i := range parts {
		e := objectExtent(fmt.Sprintf("%02x-%s-%d", i%256, id, i), int64(2+i))
		e.Part = i
		p := metastore.Part{Index: i, Size: e.Size, Checksum: fmt.Sprint("SUM ", i)}
		f.note(nil, f.PutPart(f.ctx, id, p, []metastore.Extent{e}))
		if i%2 == 0 {
			chosen = append(chosen, p)
		}
	}
	f.note(f.CompleteUneven(f.ctx, id, int64(parts), chosen, 1<<63, "", nil))
}

// fill inserts rows into every table, of every kind.
func fill(tb testing.TB, s *Store, parts int) {
	tb.Helper()
	f := &filler{Store: s, ctx: tb.Context()}
	long := strings.Repeat("n", 2000)
	f.blob("b", "replaced", objectExtent("00-second", 3))
	f.blob("b", "replaced", objectExtent("ff-third", 4), metastore.Extent{Offset: 4, Size: 1, Blocks: []uint32{3}, Object: "ff-fourth", Created: time.Now()})
	f.note(f.Purge(f.ctx, 10)) // their rows of usage become sums, and the replaced content is retained
	for _, name := range []string{"a", "ab", "\x00\xff", long, long + "1", long + "22", strings.Repeat("é", 1500)} {
		f.blob("account", name, bodyExtent("body"))
	}
	f.blob("account", "empty")
	f.blob("b", "object", objectExtent("00-first", 1<<20+5))
	f.note(f.CopyBlob(f.ctx, metastore.Copy{From: metastore.BlobName{Account: "b", Name: "object"}, To: metastore.Blob{Account: "b", Name: "shared"}}))
	f.deleted("account", "deleted")
	f.upload("committed", parts)
	f.note(f.CompleteUpload(f.ctx, "committed", int64(parts), 2*int64(parts), 1<<63, nil))
	f.uneven("uneven", 5)
	f.upload("open", 3)
	f.upload("aborted", 2)
	f.note(f.AbortUpload(f.ctx, "aborted"))
	f.note(f.CreateSession(f.ctx, ledger.Session{ID: "granted", Total: 5, Left: 5, Expires: time.Now().Add(time.Hour)},
		&database.Idempotency{Scope: "s", Key: "k", Hash: sha256.Sum256(nil)}))
	f.note(f.UseSession(f.ctx, "granted", 2, nil))
	f.note(f.OpenChannel(f.ctx, ledger.Channel{ID: "channel", PaymentChannelID: 1, Receiver: "r", Asset: "a", Deposit: 1 << 62, Expires: time.Now().Add(time.Hour)}, nil))
	pay := func(sequence, amount int64) ledger.Offer {
		return ledger.Offer{Payment: ledger.Payment{Sender: "s", Receiver: "r", Asset: "a", PaymentChannelID: 1, Sequence: sequence, Amount: amount,
			Proof: []byte{1, 2}, Expires: time.Now().Add(time.Minute),
		}, Policy: ledger.Policy{UnsettledLimit: 1 << 62}}
	}
	f.note(f.Buy(f.ctx, ledger.Purchase{Offer: pay(1, 10), Price: 3, Session: ledger.Session{ID: "bought", Expires: time.Now().Add(time.Hour)}}, nil))
	settlements, err := f.Settlements(f.ctx, ledger.Settlement{}, 1)
	f.note(nil, err)
	f.note(nil, f.Book(f.ctx, settlements))
	submitted := pay(1, 10)
	submitted.Sender, submitted.PaymentChannelID, submitted.SettleAt = "chain", 2, 1
	f.note(f.OpenChannel(f.ctx, ledger.Channel{ID: "submitted", PaymentChannelID: 2, Sender: "chain", Receiver: "r", Asset: "a", Deposit: 100, Expires: time.Now().Add(time.Hour), ChainTime: time.Now(), NextSequence: 1}, nil))
	f.note(f.PayRead(f.ctx, ledger.ReadPurchase{Offer: submitted, Price: 1, Count: 1}))
	f.note(nil, f.BeginSubmission(f.ctx, ledger.Submission{Channel: "submitted", Sequence: 1, Amount: 10, Body: []byte("body"), Expires: submitted.Expires}))
	f.note(f.PayRead(f.ctx, ledger.ReadPurchase{Offer: pay(2, 30), Price: 1, Count: 19}))
	for i := range 5 { // equal to each other except for the time
		f.note(f.ReturnCredit(f.ctx, "channel", 1, 1, fmt.Sprint(i)))
	}
	f.note(nil, f.db.Write(f.ctx, func(t *engine.Tx) error {
		_, err := t.Exec(`UPDATE sales SET at = 5 WHERE sequence IS NULL`)
		return err
	}))
	f.note(f.Purge(f.ctx, 3)) // some sales are folded, and some rows of usage remain
	f.note(f.CreateKey(f.ctx, keys.Key{ID: "all", Group: "g", Limits: keys.Limits{StoredBytes: -1}, S3Secret: []byte("sealed")}, nil, nil))
	f.note(f.CreateKey(f.ctx, keys.Key{ID: "none", Group: "g", Limits: keys.Limits{StoredBytes: -1}, Grants: []keys.Grant{{Accounts: []string{}}}, Label: "label"}, nil, nil))
	act := &actions.Act{Action: actions.Action{Name: "key.revoke", Accounts: []string{"0x1"}, Before: []byte("{}")}}
	act.Keys, _ = f.KeysVersion(f.ctx)
	f.note(f.RevokeKey(f.ctx, "none", act))
	f.note(f.SetKeeping(f.ctx, "versions", func(k *metastore.Keeping) (*actions.Act, error) {
		*k = metastore.Keeping{State: metastore.KeepOn, For: time.Hour, Most: 9}
		return nil, nil
	}))
	f.note(f.SetRules(f.ctx, "ruled", func(rules *[]metastore.Rule) (*actions.Act, error) {
		*rules = []metastore.Rule{{ID: "rule", Prefix: "p", ExpireDays: 3}}
		return nil, nil
	}))
	_, _, err = f.ApplyRules(f.ctx, 1)
	f.note(nil, err)
	for range 3 {
		f.deleted("versions", strings.Repeat("v", 1999))
	}
	f.blob("versions", "current")
	f.note(f.SetKeeping(f.ctx, "versions", func(k *metastore.Keeping) (*actions.Act, error) {
		k.Most = 8
		return nil, nil
	}))
	f.note(placestest.Change(f.ctx, f, places.Place{Account: "\xff", Name: "a/\x00"}, func(s *places.Settings, _ places.Settings) (*actions.Act, error) {
		*s = places.Settings{Reads: "public", Blocked: &places.Block{Reason: "r", By: "key"}}
		return nil, nil
	}))
	f.note(nil, f.SetAlias(f.ctx, metastore.Alias{Name: "alias", Account: "0x1"}, nil))
	f.note(f.CreateWebhook(f.ctx, metastore.Webhook{ID: "webhook"}, nil, nil))
	f.note(nil, f.SetProperty(f.ctx, "receiver", "0x1"))
	f.note(f.Lease(f.ctx, "background", "me", time.Minute))
	testenv.OK(tb, errors.Join(f.errs...))
	for _, table := range dumped {
		if n, err := s.countRows(tb.Context(), &table); err != nil || n == 0 {
			tb.Fatalf("%s has %d rows, %v: the test shows nothing of it", table.name, n, err)
		}
	}
}

// sameTables fails the test if the stores' rows differ. It compares them one by one, independently
// of dumps.
func sameTables(tb testing.TB, a, b *Store) {
	tb.Helper()
	rows := func(s *Store, table *table) []string {
		var list []string
		testenv.OK(tb, s.db.Snapshot(tb.Context(), func(t *engine.Tx) error {
			r := newRow(len(table.columns()))
			return t.Each(table.rows(strings.Join(table.columns(), ", ")), nil, r.places(), func() error {
				list = append(list, fmt.Sprintf("%#v", r.values()))
				return nil
			})
		}))
		slices.Sort(list)
		return list
	}
	for i := range dumped {
		if want, got := rows(a, &dumped[i]), rows(b, &dumped[i]); !slices.Equal(want, got) {
			tb.Errorf("%s has %d rows that are not the %d of the source", dumped[i].name, len(got), len(want))
		}
	}
	sameAccounts(tb, accountsAreExact(tb, b), accountsAreExact(tb, a))
}

// errCut ends a load.
var errCut = errors.New("cut")

// pages counts pages of rows down, and ends the load with errCut at 0.
type pages int

func (p *pages) next() error {
	if *p--; *p == 0 {
		return errCut
	}
	return nil
}

// load replaces the rows of to by a dump of from, which may have another engine, as a restore does.
// Pages have up to size rows, and left is how many are loaded.
func load(ctx context.Context, to, from *Store, size int, left pages) error {
	var tables []Table
	rows := map[string][][]any{}
	err := from.Dump(ctx, Dump{
		Begin: func(time.Time, map[string]string) error { return nil },
		Table: func(t Table) error { tables = append(tables, t); return nil },
		Rows: func(page [][]any) error {
			name := tables[len(tables)-1].Name
			rows[name] = append(rows[name], page...)
			return nil
		},
	})
	tables = slices.DeleteFunc(tables, func(t Table) bool { return t.Name == ObjectsTable || t.Name == InlineTable })
	if err = errors.Join(err, to.Unload(ctx, tables)); err != nil {
		return err
	}
	for _, table := range tables {
		for page := range slices.Chunk(rows[table.Name], size) {
			if err := errors.Join(to.Load(ctx, table, page), left.next()); err != nil {
				return err
			}
		}
	}
	bodies, err := from.Bodies(ctx, []any{[]byte{}, int64(0), int64(0)}, 1<<30)
	for page := range slices.Chunk(bodies, size) {
		if err = errors.Join(err, to.LoadBodies(ctx, page), left.next()); err != nil {
			return err
		}
	}
	return err
}

// Invariant 120.
func TestDumpThereAndBack(t *testing.T) {
	ctx := t.Context()
	first, second, third := openAt(t, databasePath(t), Options{}), openAtPostgres(t), openAt(t, databasePath(t), Options{})
	fill(t, first, 10_000)
	for _, step := range []struct{ from, to *Store }{{first, second}, {second, third}} {
		testenv.OK(t, load(ctx, step.to, step.from, dumpPage, 0))
		testenv.Equal(t, testenv.Must(step.to.CountRows(ctx))(t), testenv.Must(step.from.CountRows(ctx))(t), "rows")
		testenv.Equal(t, value(t, step.to, `SELECT COUNT(*) FROM account_deltas`), 0, "counts of accounts that are not added up")
	}
	sameTables(t, first, third)
	if facts, err := second.Properties(ctx); err != nil || len(facts) != 0 {
		t.Errorf("the facts %v were loaded, %v", facts, err)
	}
	if n := value(t, third, `SELECT COUNT(*) FROM parts`); n < 10_000 {
		t.Errorf("%d rows of parts, and the committed upload alone has 10,000 until the next purge", n)
	}
	audited(t, second)
	audited(t, third)
	testenv.Equal(t, testenv.Must(third.UseSession(ctx, "granted", 1, nil))(t).Left, 2, "a use")
	testenv.Check(t, testenv.Error(third.CompleteUpload(ctx, "open", 3, 6, 0, nil)))
}

// TestLoadCutAfterEachPage: whichever page was the last, the next load ends with the rows of its
// dump. After the first one the source changes.
// Invariant 120.
func TestLoadCutAfterEachPage(t *testing.T) {
	ctx := t.Context()
	from := openAt(t, databasePath(t), Options{})
	fill(t, from, 8)
	newPath := dbtest.Copies(t, openSQLite)
	step := pages(1)
	if testing.Short() {
		step = 5 // a quick run cuts after every fifth page
	}
	f := &filler{Store: from, ctx: ctx}
	for cut := pages(1); ; cut += step {
		to := openAt(t, newPath(t), Options{Readers: 1})
		err := load(ctx, to, from, 3, cut)
		if err == nil {
			if int(cut) < len(dumped) {
				t.Errorf("there were only %d pages to cut after", cut)
			}
			return
		}
		testenv.Is(t, err, errCut, "cut after page %d", cut)
		if cut == 1 {
			f.blob("account", "a", bodyExtent("other"))
			f.note(f.UseSession(ctx, "granted", 1, nil))
			f.note(f.ReturnCredit(ctx, "channel", 1, 1, "another"))
			_, _, err := dbtest.Remove(ctx, f, "b", "object", nil)
			testenv.OK(t, errors.Join(append(f.errs, err)...))
		}
		testenv.OK(t, load(ctx, to, from, 3, 0))
		sameTables(t, from, to)
	}
}

// TestObjects: Objects returns each object once, and reports which are garbage.
func TestObjects(t *testing.T) {
	for name, s := range map[string]*Store{"SQLite": openAt(t, databasePath(t), Options{}), "PostgreSQL": openAtPostgres(t)} {
		fill(t, s, 4)
		var keys []string
		var size int64
		for after := ""; ; {
			page := testenv.Must(s.Objects(t.Context(), after, 2))(t)
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				after = e.Object
				if !e.Garbage {
					size, keys = size+e.Size, append(keys, e.Object)
				}
			}
			if page[0].Object == "00-first" && !slices.Equal(page[0].Blocks, []uint32{1, 0xffffffff}) {
				t.Errorf("%s: the blocks are %x", name, page[0].Blocks)
			}
		}
		want := []string{"00-committed-0", "00-first", "00-open-0", "00-uneven-0", "02-committed-2", "02-open-2", "02-uneven-2", "04-uneven-4", "ff-fourth", "ff-third"}
		if !slices.Equal(keys, want) {
			t.Errorf("%s: the objects are %v, want %v", name, keys, want)
		}
		if n, bytes, err := s.CountObjects(t.Context()); err != nil || n != int64(len(want)) || bytes != size {
			t.Errorf("%s: %d objects of %d bytes, %v; want %d of %d", name, n, bytes, err, len(want), size)
		}
	}
}
