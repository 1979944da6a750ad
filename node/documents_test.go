package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/blob"
	"sluice/database"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/paychan"
	"sluice/session"
	"sluice/test/testenv"
	"sluice/wire"
	"sluice/wire/link"
)

// TestNumbersInDocuments compares numbers in documents with the code. Each pattern must be in its
// document once, with the number in place of #.
func TestNumbersInDocuments(t *testing.T) {
	hours := func(d time.Duration) int64 { return int64(d / time.Hour) }
	days := func(d time.Duration) int64 { return hours(d) / 24 }
	const kib, mib, gib, tib = 1 << 10, 1 << 20, 1 << 30, 1 << 40
	for _, c := range []struct {
		document, pattern string
		want              int64
	}{
		{"operations.md", "deletes objects older than # hours", hours(blob.OrphanAge)},
		{"operations.md", "then every # hours \\| deletes objects", hours(blob.DefaultSweepEvery)},
		{"operations.md", "aborts uploads that were idle for # hours", hours(metastore.UploadIdleLimit)},
		{"operations.md", "deletes ended uploads after # days", days(metastore.UploadRetention)},
		{"operations.md", "expired blobs after # hours", hours(metastore.ExpiredBlobGrace)},
		{"operations.md", "expired sessions after # days", days(ledger.SessionRetention)},
		{"operations.md", "idempotency keys after # hours", hours(database.IdempotencyRetention)},
		{"protocol.md", "\\| blob \\| 0 bytes to # TiB", blob.MaxSize / tib},
		{"protocol.md", "\\| part \\| 1 byte to # GiB", blob.MaxPartSize / gib},
		{"protocol.md", "GiB; at most # parts", blob.MaxParts},
		{"protocol.md", "the default part size is #", wire.DefaultPartSize},
		{"protocol.md", "must end within # hours", hours(metastore.MaxExtentAge)},
		{"protocol.md", "JSON body, header section \\| # KiB", wire.MaxJSONBody / kib},
		{"protocol.md", "JSON body, header section \\| \\d+ KiB, # KiB", wire.MaxHeaderBytes / kib},
		{"protocol.md", "`limit` from 1 to #,", wire.MaxPageSize},
		{"protocol.md", "\\| session \\| # chunksets", session.DefaultGrant},
		{"protocol.md", "chunksets, # days", days(session.DefaultTTL)},
		{"protocol.md", "retained for # more days", days(ledger.SessionRetention)},
		{"protocol.md", "\\| channel \\| # days", days(paychan.DefaultTTL)},
		{"protocol.md", "no part arrives for # hours", hours(metastore.UploadIdleLimit)},
		{"protocol.md", "its outcome is retained for # days", days(metastore.UploadRetention)},
		{"protocol.md", "at most # days from now, by the service's clock", days(link.MaxLife)},
		{"protocol.md", "\\(and # minutes more, for a signer's clock", int64(link.MaxSkew / time.Minute)},
		{"protocol.md", "A sale is kept for # days", days(ledger.SaleRetention)},
		{"protocol.md", "1 to # UTF-16 code units", blob.MaxNameLength},
		{"glossary.md", "At most # MiB of a content", metastore.MaxExtentSize / mib},
		{"glossary.md", "bodies of at most # KiB", blob.DefaultInlineSize / kib},
		{"decisions/0004-inline-contents.md", "A body of at most # KiB", blob.DefaultInlineSize / kib},
		{"decisions/0023-growth-and-quotas.md", "other sales after # days", days(ledger.SaleRetention)},
	} {
		root := testenv.Must(testenv.Root())(t)
		text := string(testenv.Must(os.ReadFile(filepath.Join(root, "docs", c.document)))(t))
		text = strings.Join(strings.Fields(text), " ")
		found := regexp.MustCompile(strings.Replace(c.pattern, "#", `([\d,]+)`, 1)).FindAllStringSubmatch(text, -1)
		if len(found) != 1 {
			t.Errorf("docs/%s has %q %d times, want once", c.document, c.pattern, len(found))
			continue
		}
		if got, err := strconv.ParseInt(strings.ReplaceAll(found[0][1], ",", ""), 10, 64); err != nil || got != c.want {
			t.Errorf("docs/%s: %q, and the code has %d", c.document, found[0][0], c.want)
		}
	}
}
