package meta

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/bytestore"
	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
	"sluice/test/testenv"
)

// scaleEnv is the number of blobs up to which BenchmarkScale goes.
const scaleEnv = "SLUICE_BENCH_SCALE"

const (
	smallestScale = 10_000
	defaultScale  = 100_000
	// namesPerAccount is how many names an account has, except the archive.
	namesPerAccount = 3000
	// archiveGroups is the number of groups of names in the archive, which has a tenth of all
	// names.
	archiveGroups = 1000
	archive       = "archive"
	pageNames     = 1000
	scaleOwners   = 100
	loadBatch     = 20_000
)

// BenchmarkScale measures operations on a store that grows from 10^4 blobs by factors of ten to
// 10^5, or to as many as the environment sets. It reports a call's median and 99th percentile, and
// the sizes of tables and indexes.
func BenchmarkScale(b *testing.B) {
	most := defaultScale
	if value := os.Getenv(scaleEnv); value != "" {
		most = testenv.Must(strconv.Atoi(value))(b)
	}
	b.Run("sqlite", func(b *testing.B) { benchScale(b, sqliteAtScale(b), most) })
	b.Run("postgres", func(b *testing.B) { benchScale(b, postgresAtScale(b), most) })
}

func benchScale(b *testing.B, s *scaleStore, most int) {
	for have, n := 0, smallestScale; n <= most; have, n = n, 10*n {
		testenv.OK(b, s.grow(b.Context(), have, n))
		b.Run(fmt.Sprintf("blobs=%d", n), func(b *testing.B) { s.measure(b, n) })
	}
}

// scaleStore is a store that is filled without its operations.
type scaleStore struct {
	*Metastore
	// load inserts rows as the operations would have done, in sequence.
	load func(ctx context.Context, rows []scaleRow) error
	// settle performs the maintenance that the engine would perform while so many rows are written.
	settle func(ctx context.Context) error
	// sizes is a query for the names of tables and indexes and their bytes.
	sizes string
	conn  *pgx.Conn // to PostgreSQL
}

func sqliteAtScale(b *testing.B) *scaleStore {
	s := openSQLite(b, engine.Options{})
	load := func(ctx context.Context, rows []scaleRow) error {
		return s.db.Write(ctx, func(t *engine.Tx) error {
			for i := range rows {
				if err := (tx{t}).insertBlob(&storedBlob{Blob: rows[i].blob}, metastore.ChangeStored); err != nil {
					return err
				}
				if err := (tx{t}).addExtents(rows[i].blob.Content, []metastore.Extent{rows[i].extent}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return &scaleStore{
		Metastore: s, load: load, settle: func(context.Context) error { return nil },
		sizes: `SELECT name, SUM(pgsize) FROM dbstat GROUP BY name ORDER BY name`,
	}
}

func postgresAtScale(b *testing.B) *scaleStore {
	server := testenv.StartPostgres(b)
	testenv.OK(b, server.Stop())
	testenv.OK(b, server.Start("shared_buffers=1GB", "max_wal_size=4GB"))
	s, p := openServer(b, server.DSN())
	settle := func(ctx context.Context) error {
		for _, statement := range []string{"VACUUM ANALYZE blobs", "VACUUM ANALYZE extents", "CHECKPOINT"} {
			if _, err := p.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
	return &scaleStore{
		Metastore: s, conn: p, settle: settle,
		load: func(ctx context.Context, rows []scaleRow) error { return loadPostgres(ctx, p, rows) },
		sizes: `SELECT CAST(CAST(relname AS TEXT) AS BYTEA), pg_relation_size(oid) FROM pg_class
			WHERE relnamespace = CAST(current_schema() AS regnamespace) AND relkind IN ('r', 'i') ORDER BY relname`,
	}
}

func loadPostgres(ctx context.Context, p *pgx.Conn, rows []scaleRow) error {
	blobs, extents := make([][]any, len(rows)), make([][]any, len(rows))
	for i := range rows {
		b, e := &rows[i].blob, &rows[i].extent
		n := splitName(b.Name)
		blobs[i] = []any{
			[]byte(b.Account), n.head, n.hash, n.tail, b.Content[:], b.Size, int64(b.CRC64), b.PartSize,
			engine.BytesColumn(b.SHA256), []byte(b.ContentType), engine.Micros(b.Modified), engine.Micros(b.Expires), engine.OptionalColumn(b.Owner),
		}
		extents[i] = []any{b.Content[:], int64(e.Part), e.Offset, e.Size, engine.BlocksColumn(e.Blocks), []byte(e.Object)}
	}
	return pgx.BeginFunc(ctx, p, func(t pgx.Tx) error {
		_, err := t.CopyFrom(ctx, pgx.Identifier{"blobs"}, []string{
			"account", "name_head", "name_hash", "name_tail", "content", "size", "crc64", "part_size",
			"sha256", "content_type", "modified", "expires", "owner",
		}, pgx.CopyFromRows(blobs))
		if err != nil {
			return err
		}
		for i := range blobs {
			blobs[i] = []any{blobs[i][0], 1, rows[i].blob.Size}
		}
		if _, err := t.CopyFrom(ctx, pgx.Identifier{"account_deltas"}, []string{"account", "blobs", "bytes"}, pgx.CopyFromRows(blobs)); err != nil {
			return err
		}
		_, err = t.CopyFrom(ctx, pgx.Identifier{"extents"},
			[]string{"content", "part", "off", "size", "blocks", "object"}, pgx.CopyFromRows(extents))
		return err
	})
}

// grow loads rows up to n in the order of their writes. For every hundred of them there is one
// content that has just become garbage.
func (s *scaleStore) grow(ctx context.Context, have, n int) error {
	start := time.Now()
	var rows []scaleRow
	for i := have; i < n; i++ {
		if rows = append(rows, newScaleRow(i, start)); len(rows) < loadBatch && i < n-1 {
			continue
		}
		if err := s.load(ctx, rows); err != nil {
			return err
		}
		rows = rows[:0]
	}
	err := s.db.Write(ctx, func(t *engine.Tx) error {
		for i := range scaleOwners {
			if err := usage.Record(t, usage.Delta{Owner: scaleOwner(i), Used: metastore.Used{Bytes: int64(n-have) / scaleOwners * scaleSize}}); err != nil {
				return err
			}
		}
		for range (n - have) / 100 {
			if err := (tx{t}).addGarbage(metastore.NewContentID(t.Now), usage.Delta{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.settle(ctx)
}

// scaleRow is a blob and its one extent.
type scaleRow struct {
	blob   metastore.Blob
	extent metastore.Extent
}

// scaleSize is the size of every blob, in bytes: four blocks.
const scaleSize = 4 << 20

// newScaleRow returns row i, which is a millisecond later than the one before it.
func newScaleRow(i int, start time.Time) scaleRow {
	at := engine.Truncate(start.Add(time.Duration(i) * time.Millisecond))
	account, name := scaleName(i)
	return scaleRow{
		blob: metastore.Blob{
			Account: account, Name: name, Content: metastore.NewContentID(at), Size: scaleSize, CRC64: rand.Uint64(),
			ContentType: "image/jpeg", Owner: scaleOwner(i % scaleOwners), Modified: at,
		},
		extent: metastore.Extent{
			Size: scaleSize, Object: string(bytestore.NewName(at)), Created: at,
			Blocks: []uint32{rand.Uint32(), rand.Uint32(), rand.Uint32(), rand.Uint32()},
		},
	}
}

func scaleOwner(i int) string { return fmt.Sprintf("group-%03d", i) }

// scaleName returns row i's account and name. Every tenth row is in the archive. The rest belong to
// accounts that write in turn; more rows have more accounts.
func scaleName(i int) (account, name string) {
	if i%10 == 0 {
		return archive, fmt.Sprintf("logs/%04d/%08d.json", i/10%archiveGroups, i/10)
	}
	n := i - i/10 - 1 // number outside the archive
	first, end := 0, outside(smallestScale)
	for n >= end {
		first, end = end, 10*end
	}
	accounts := (end - first) / namesPerAccount
	return scaleAccount((first + (n-first)%accounts*namesPerAccount) / namesPerAccount), photo((n - first) / accounts)
}

// outside returns how many blobs are outside the archive.
func outside(blobs int) int { return blobs / 10 * 9 }

func scaleAccount(i int) string { return fmt.Sprintf("0x%x", sha256.Sum256([]byte(strconv.Itoa(i)))) }

func photo(i int) string { return fmt.Sprintf("photos/2025/%02d/IMG_%06d.jpg", i/250+1, i) }

// measure calls the operations on a store of n blobs, each time with other names.
func (s *scaleStore) measure(b *testing.B, n int) {
	b.Run("stored", func(b *testing.B) { s.reportSizes(b, n) })
	ctx := b.Context()
	anyAccount := func() string { return scaleAccount(rand.IntN(outside(n) / namesPerAccount)) }
	timed(b, "blob", nil, func(int) error {
		_, err := s.Blob(ctx, anyAccount(), photo(rand.IntN(namesPerAccount)))
		return err
	})
	timed(b, "page-of-names", nil, func(int) error {
		after := photo(rand.IntN(namesPerAccount - pageNames))
		return s.page(ctx, metastore.ListQuery{Account: anyAccount(), After: after}, pageNames, 0)
	})
	timed(b, "page-of-groups", nil, func(int) error {
		return s.page(ctx, metastore.ListQuery{Account: archive, Prefix: "logs/", Delimiter: "/"}, 0, archiveGroups)
	})
	timed(b, "one-group", nil, func(int) error {
		return s.page(ctx, metastore.ListQuery{Account: archive, Delimiter: "/"}, 0, 1)
	})
	timed(b, "usage", nil, func(int) error {
		used, err := s.Usage(ctx, scaleOwner(rand.IntN(scaleOwners)))
		if want := int64(n / scaleOwners * scaleSize); err == nil && used.Bytes != want {
			err = fmt.Errorf("the usage of the owner is %d bytes, want %d", used.Bytes, want)
		}
		return err
	})
	var keys []string
	someKeys := func(int) (err error) {
		// From the first half, so that there are enough.
		from := bytestore.NewName(time.Now().Add(time.Duration(rand.IntN(n)) * time.Millisecond))
		keys, err = s.objects(ctx, fmt.Sprintf("%x%s", rand.IntN(8), from[1:]))
		return err
	}
	timed(b, "unreferenced", someKeys, func(int) error {
		free, err := s.Unreferenced(ctx, keys)
		if err == nil && (len(keys) != maxUnreferenced || len(free) > 0) {
			err = fmt.Errorf("%d of %d objects are reported as unreferenced", len(free), len(keys))
		}
		return err
	})
	timed(b, "garbage-not-due", nil, func(int) error {
		list, err := s.GarbageContents(ctx, time.Hour, metastore.GarbageContent{}, pageNames)
		if err == nil && len(list) > 0 {
			err = fmt.Errorf("%d contents are due", len(list))
		}
		return err
	})
	var names [][2]string // of existing blobs
	commit := func(int) error {
		row := newScaleRow(0, time.Now())
		row.blob.Account, row.blob.Name, row.blob.Owner = anyAccount(), fmt.Sprintf("uploads/%x", rand.Uint64()), "writer"
		names = append(names, [2]string{row.blob.Account, row.blob.Name})
		_, err := s.CommitBlob(ctx, row.blob, []metastore.Extent{row.extent}, nil)
		return err
	}
	timed(b, "commit", nil, commit)
	timed(b, "delete", commit, func(int) error {
		last := names[len(names)-1]
		names = names[:len(names)-1]
		_, found, err := dbtest.Remove(ctx, s, last[0], last[1], nil)
		if err == nil && !found {
			err = fmt.Errorf("%s is missing", last[1])
		}
		return err
	})
}

// objects returns a thousand object keys, as a sweep would list them.
func (s *scaleStore) objects(ctx context.Context, from string) ([]string, error) {
	var keys []string
	err := s.db.Read(ctx, func(t *engine.Tx) error {
		keys = nil
		var key string
		return t.Each(`SELECT object FROM extents WHERE object >= $1 ORDER BY object LIMIT ($2 + 0)`,
			engine.Args{[]byte(from), int64(maxUnreferenced)}, engine.Args{&key}, func() error {
				keys = append(keys, key)
				return nil
			})
	})
	return keys, err
}

// page lists a page that must have this many names and groups.
func (s *scaleStore) page(ctx context.Context, q metastore.ListQuery, blobs, groups int) error {
	q.Limit = pageNames
	page, err := s.ListBlobs(ctx, q)
	if err == nil && (len(page.Blobs) != blobs || len(page.Prefixes) != groups) {
		err = fmt.Errorf("%d names and %d groups on the page, want %d and %d", len(page.Blobs), len(page.Prefixes), blobs, groups)
	}
	return err
}

// timed reports the median and the 99th percentile of call. prepare runs before each call.
func timed(b *testing.B, name string, prepare, call func(i int) error) {
	b.Run(name, func(b *testing.B) {
		took := make([]time.Duration, 0, b.N)
		for i := range b.N {
			if prepare != nil {
				b.StopTimer()
				testenv.OK(b, prepare(i))
				b.StartTimer()
			}
			start := time.Now()
			testenv.OK(b, call(i))
			took = append(took, time.Since(start))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[b.N/2].Nanoseconds())/1000, "µs-p50")
		b.ReportMetric(float64(took[b.N*99/100].Nanoseconds())/1000, "µs-p99")
		b.ReportMetric(0, "ns/op") // the mean is less useful
	})
}

// reportSizes reports the size of each table and index per blob.
func (s *scaleStore) reportSizes(b *testing.B, n int) {
	var name string
	var size, sum int64
	testenv.OK(b, s.db.Read(b.Context(), func(t *engine.Tx) error {
		return t.Each(s.sizes, nil, engine.Args{&name, (*engine.Integer)(&size)}, func() error {
			if size >= int64(n) { // at least one byte per blob
				b.ReportMetric(float64(size)/float64(n), "B/blob:"+name)
			}
			sum += size
			return nil
		})
	}))
	b.ReportMetric(float64(sum)/float64(n), "B/blob")
	b.ReportMetric(0, "ns/op")
}
