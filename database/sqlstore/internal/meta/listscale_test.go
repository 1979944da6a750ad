package meta

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"sluice/metastore"
	"sluice/test/testenv"
)

// BenchmarkLists reports how long a page of 1,000 entries takes on PostgreSQL, in lists with a
// million names: groups of one name each, groups behind a common beginning of 2,000 bytes, and
// names without a group, with a delimiter and without.
func BenchmarkLists(b *testing.B) {
	const names = 1_000_000
	s, p := openPostgres(b)
	long := strings.Repeat("h", headLen)
	for _, statement := range []string{
		`ALTER TABLE blobs DISABLE TRIGGER USER`,
		insertNames("groups", `convert_to(lpad(i::text, 7, '0') || '/x', 'UTF8')`, `''`, `''`, names),
		insertNames("flat", `convert_to(lpad(i::text, 7, '0'), 'UTF8')`, `''`, `''`, names),
		insertNames("long", `convert_to('`+long+`', 'UTF8')`, `sha256(convert_to(lpad(i::text, 7, '0') || '/x', 'UTF8'))`,
			`convert_to(lpad(i::text, 7, '0') || '/x', 'UTF8')`, names/10),
		`VACUUM ANALYZE blobs`,
	} {
		testenv.Must(p.Exec(b.Context(), statement))(b)
	}
	for _, c := range []struct {
		name, account, delimiter, after string
		most                            int
	}{
		{"groups", "groups", "/", "", names},
		{"groups-behind-2000-bytes", "long", "/", long, names / 10},
		{"names", "flat", "", "", names},
		{"names-with-delimiter", "flat", "/", "", names},
		{"long-names", "long", "", long, names / 10},
	} {
		step := 0
		timed(b, c.name, nil, func(int) error {
			step = (step + 7919) % (c.most - pageNames - 1)
			q := metastore.ListQuery{Account: c.account, Delimiter: c.delimiter, After: fmt.Sprintf("%s%07d0", c.after, step), Limit: pageNames}
			page, err := s.ListBlobs(b.Context(), q)
			if got := len(page.Blobs) + len(page.Prefixes); err == nil && got != pageNames {
				err = fmt.Errorf("%d entries, want %d", got, pageNames)
			}
			return err
		})
	}
}

// BenchmarkLookupBesideLists reports how long a blob's lookup takes on PostgreSQL, alone and while
// 32 callers list 1,100 folders again and again.
func BenchmarkLookupBesideLists(b *testing.B) {
	const folders = 1100
	s, p := openPostgres(b)
	statement := insertNames("a", `convert_to(lpad(i::text, 7, '0') || '/x', 'UTF8')`, `''`, `''`, folders)
	testenv.Must(p.Exec(b.Context(), statement))(b)
	lookup := func(int) error {
		_, _, err := s.OpenBlob(b.Context(), "a", "0000007/x")
		return err
	}
	timed(b, "alone", nil, lookup)
	ctx, stop := context.WithCancel(b.Context())
	var listers sync.WaitGroup
	for range 32 {
		listers.Go(func() {
			for ctx.Err() == nil {
				page, err := s.ListBlobs(ctx, metastore.ListQuery{Account: "a", Delimiter: "/", Limit: pageNames})
				if ctx.Err() == nil && (err != nil || len(page.Prefixes) != pageNames) {
					b.Errorf("%d groups, %v", len(page.Prefixes), err)
				}
			}
		})
	}
	timed(b, "beside-32-lists", nil, lookup)
	stop()
	listers.Wait()
}

// insertNames returns a statement that inserts n rows. Each part of the name is an expression of
// the row's number i.
func insertNames(account, head, hash, tail string, n int) string {
	return fmt.Sprintf(`INSERT INTO blobs (account, name_head, name_hash, name_tail, content, size, crc64, part_size, content_type, modified)
		SELECT '%s', %s, %s, %s, substr(sha256(convert_to('%[1]s' || i::text, 'UTF8')), 1, 16), 1, 1, 0, 'text/plain', 1
		FROM generate_series(1, %[5]d) i`, account, head, hash, tail, n)
}
