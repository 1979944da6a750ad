package meta

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestAllocationsOfLists checks that a page of names takes little more than one allocation for each
// name, which is the name.
func TestAllocationsOfLists(t *testing.T) {
	const names = 300
	s, _ := openPostgres(t)
	for i := range names {
		b := metastore.Blob{
			Account: "a", Name: fmt.Sprintf("name %03d", i), Content: metastore.NewContentID(time.Now()), CRC64: uint64(i) << 40,
			ContentType: "text/plain", Owner: "owner", Expires: time.Now().Add(time.Hour),
		}
		testenv.Must(s.CommitBlob(t.Context(), b, nil, nil))(t)
	}
	got := testing.AllocsPerRun(50, func() {
		p, err := s.ListBlobs(t.Context(), metastore.ListQuery{Account: "a", Limit: names})
		if err != nil || len(p.Blobs) != names || p.Blobs[7].Name != "name 007" || p.Blobs[7].CRC64 != 7<<40 || p.Blobs[7].ContentType != "text/plain" || p.Blobs[7].Owner != "owner" {
			t.Errorf("%d names, %v", len(p.Blobs), err)
		}
	})
	t.Logf("%v allocations", got)
	if got > names+100 && !testenv.Race { // the race detector allocates, too
		t.Errorf("%v allocations for %d names, want at most %d", got, names, names+100)
	}
}

// TestListsByEitherStatement compares the two statements of PostgreSQL for a page: of names that
// are short, long, expired, or begin with the greatest bytes, for prefixes and places between them,
// and for both bounds.
func TestListsByEitherStatement(t *testing.T) {
	s, c := openPostgres(t)
	long := strings.Repeat("l", headLen)
	names := []string{"a", "a/b", "a/b/c", "a0", "b", "b\x7f", "ü", "\U0010ffff", "\U0010ffff\U0010ffff", long[1:], long, long + "1", long + "0", "m"}
	for i, name := range names {
		b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(time.Now()), ContentType: strings.Repeat("t", i)}
		testenv.Must(s.CommitBlob(t.Context(), b, nil, nil))(t)
	}
	testenv.OK(t, testenv.Error(c.Exec(t.Context(), `UPDATE blobs SET expires = 1 WHERE name_head = 'b'`)))
	alone := 0
	for _, prefix := range []string{"", "a", "a/", "b", "l", "n", "\U0010ffff", "\xff", "\xff\xff", long[:100]} {
		for _, after := range append([]string{"", "k", "z"}, names...) {
			for _, limit := range []int{1, 3, 100} {
				for _, most := range []int64{1, 500, 1 << 30} {
					q := listing{ListQuery: metastore.ListQuery{Account: "a", Prefix: prefix, After: after, Limit: limit, Bytes: most}, live: time.Now().UnixMicro()}
					q.first = firstName(q.ListQuery)
					inside := testenv.Must(engine.ResultOf(t.Context(), s.in.ReadList, func(x tx) (metastore.Page, error) { return x.listInside(q) }))(t)
					if len(prefix) >= headLen || len(q.first) >= headLen {
						continue
					}
					page := testenv.Must(engine.ResultOf(t.Context(), s.in.ReadList, func(x tx) (metastore.Page, error) {
						p, ok, err := x.listAlone(q)
						if !ok {
							return inside, err
						}
						alone++
						return p, err
					}))(t)
					if !reflect.DeepEqual(page, inside) {
						t.Errorf("prefix %.10q, after %.10q, at most %d entries and %d bytes: %v, want %v", prefix, after, limit, most, page, inside)
					}
				}
			}
		}
	}
	if alone < 500 {
		t.Errorf("%d pages were compared", alone)
	}
}
