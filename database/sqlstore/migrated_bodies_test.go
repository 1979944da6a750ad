package sqlstore

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sluice/internal/testenv"
	"sluice/metastore"
)

// TestMigratesBodies opens databases from the version before bodies had rowids: all bodies are
// kept.
func TestMigratesBodies(t *testing.T) {
	b := func(text string) string { return `CAST('` + text + `' AS BLOB)` }
	content := metastore.ContentID([]byte("0123456789abcdef"))
	rows := ""
	var want []metastore.Extent
	for part := range 3 {
		body := strings.Repeat(fmt.Sprint(part), 4096+part)
		want = append(want, metastore.Extent{Part: part, Size: int64(len(body)), Blocks: []uint32{0x61626364}, Body: []byte(body)})
		key := fmt.Sprintf("%s, %d, 0", b(string(content[:])), part)
		rows = fmt.Sprintf(`INSERT INTO extents (content, part, off, size, blocks) VALUES (%s, %d, %s);
			INSERT INTO bodies (content, part, off, body) VALUES (%s, %s);`, key, len(body), b("abcd"), key, b(body)) + rows
	}
	onOlder(t, 14, rows, func(t *testing.T, s *Store) {
		got := testenv.Must(s.Extents(t.Context(), content, metastore.Position{}, len(want)+1))(t)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the extents are %.200v, want %.200v", got, want)
		}
	})
}
