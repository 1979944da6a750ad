package metatest_test

import (
	"fmt"
	"testing"

	"sluice/database/dbtest"
)

// charge returns the statement that counts an amount to an owner, in a column of usage. Owner and
// amount are expressions of SQL.
func charge(owner, column, amount string) string {
	in := func(name string) string {
		if name == column {
			return "COALESCE(" + amount + ", 0)"
		}
		return "0"
	}
	return fmt.Sprintf(`INSERT INTO usage (owner, id, bytes, uploads, objects, names, retained)
		SELECT %[1]s, randomblob(16), %[2]s, %[3]s, %[4]s, %[5]s, %[6]s WHERE length(%[1]s) > 0`,
		owner, in("bytes"), in("uploads"), in("objects"), in("names"), in("retained"))
}

// Events of a store, as triggers see them. The column metadata begins with the content's id, of 16
// bytes.
const (
	replaced  = `AFTER UPDATE OF content ON blobs`
	deleted   = `AFTER DELETE ON blobs`
	purged    = `AFTER DELETE ON blobs WHEN OLD.expires IS NOT NULL`
	committed = `AFTER UPDATE OF state ON uploads WHEN NEW.state = 1`
	aborted   = `AFTER UPDATE OF state ON uploads WHEN NEW.state = 2`
	resent    = `AFTER UPDATE ON parts`
)

// TestBrokenRowsAreCaught breaks a store's rows.
func TestBrokenRowsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "overwrite loses the garbage", Schema: dbtest.On(`AFTER INSERT ON garbage`, `DELETE FROM garbage WHERE content = NEW.content; DELETE FROM extents WHERE content = NEW.content`), Caught: []string{"blobs/overwrite", "garbage/life"}},
		{Name: "keeps extents that were stored ahead", Schema: dbtest.On(`AFTER UPDATE OF since ON garbage`, `UPDATE garbage SET since = 1 << 62 WHERE content = NEW.content`), Caught: []string{"blobs/large-refused"}},
		{Name: "calls every date unique", Schema: dbtest.On(`AFTER UPDATE ON blobs`, `UPDATE blobs SET shared_second = 0 WHERE content = NEW.content`), Caught: []string{"blobs/dates"}},
		{Name: "keeps the metadata of a replaced blob", Schema: dbtest.On(replaced, `UPDATE blobs SET metadata = CAST(NEW.content || substr(OLD.metadata, 17) AS BLOB) WHERE content = NEW.content AND COALESCE(length(NEW.metadata), 0) = 0`), Caught: []string{"blobs/metadata", "model/history"}},
		{Name: "loses the metadata of an upload", Schema: dbtest.On(`AFTER INSERT ON uploads`, `UPDATE uploads SET metadata = NULL WHERE id = NEW.id`), Caught: []string{"blobs/metadata", "uploads/life", "model/history"}},
		{Name: "cuts metadata", Schema: dbtest.On(replaced, `UPDATE blobs SET metadata = substr(metadata, 1, 2000) WHERE content = NEW.content`), Caught: []string{"blobs/metadata"}},
		{Name: "loses the owner in a complete", Schema: dbtest.On(committed, `UPDATE blobs SET owner = NULL WHERE content = NEW.content`), Caught: []string{"usage/owners"}},
	})
}

// TestBrokenUsageIsCaught breaks the counts of owners.
func TestBrokenUsageIsCaught(t *testing.T) {
	const owner = `(SELECT u.owner FROM uploads u WHERE u.content = NEW.content)`
	catch(t, []dbtest.Mutant{
		{Name: "an overwrite releases nothing", Schema: dbtest.On(replaced, charge("OLD.owner", "bytes", "OLD.size")), Caught: []string{"usage/blobs", "usage/race-one-name", "model/history"}},
		{Name: "an overwrite releases usage of the writer", Schema: dbtest.On(replaced, charge("OLD.owner", "bytes", "OLD.size")+"; "+charge("NEW.owner", "bytes", "-OLD.size")), Caught: []string{"usage/blobs"}},
		{Name: "a delete releases nothing", Schema: dbtest.On(deleted, charge("OLD.owner", "bytes", "OLD.size")), Caught: []string{"usage/blobs", "usage/race"}},
		{Name: "an abort releases nothing", Schema: dbtest.On(aborted, charge("NEW.owner", "bytes", "NEW.bytes")+"; "+charge("NEW.owner", "uploads", "1")), Caught: []string{"usage/uploads", "usage/complete"}},
		{Name: "a part sent again counts twice", Schema: dbtest.On(resent, charge(owner, "bytes", "OLD.size")), Caught: []string{"usage/uploads"}},
		{Name: "a complete counts the parts again", Schema: dbtest.On(committed, charge("NEW.owner", "bytes", "NEW.bytes")), Caught: []string{"usage/complete"}},
		{Name: "a complete leaves the upload open", Schema: dbtest.On(committed, charge("NEW.owner", "uploads", "1")), Caught: []string{"usage/complete"}},
		{Name: "a purge releases nothing", Schema: dbtest.On(purged, charge("OLD.owner", "bytes", "OLD.size")), Caught: []string{"usage/purge"}},
		{Name: "metadata does not count", Schema: dbtest.On(`AFTER INSERT ON blobs`, charge("NEW.owner", "names", "16 - length(NEW.metadata)")), Caught: []string{"usage/metadata", "model/history"}},
		{Name: "replaced metadata counts on", Schema: dbtest.On(replaced, charge("OLD.owner", "names", "length(OLD.metadata) - 16")), Caught: []string{"usage/metadata", "model/history"}},
		{Name: "purged metadata counts on", Schema: dbtest.On(purged, charge("OLD.owner", "names", "length(OLD.metadata) - 16")), Caught: []string{"usage/metadata"}},
		{Name: "counts an overwritten blob twice", Schema: dbtest.On(replaced, charge("NEW.owner", "objects", "1")), Caught: []string{"usage/objects"}},
		{Name: "forgets the names", Schema: dbtest.On(`AFTER INSERT ON usage`, `UPDATE usage SET names = 0`), Caught: []string{"usage/objects"}},
		{Name: "forgets the objects", Schema: dbtest.On(`AFTER INSERT ON usage`, `UPDATE usage SET objects = 0`), Caught: []string{"usage/objects"}},
		{Name: "forgets the channels", Schema: dbtest.On(`AFTER INSERT ON usage`, `UPDATE usage SET channels = 0`), Caught: []string{"usage/channels"}},
		{Name: "releases no garbage", Schema: dbtest.On(`AFTER DELETE ON garbage`, charge("OLD.owner", "retained", "OLD.charge")), Caught: []string{"usage/retained", "model/history"}},
		{Name: "forgets the garbage", BeforePurge: `UPDATE usage SET retained = 0`, Caught: []string{"usage/retained", "model/history"}},
		{Name: "a purge loses a row", AfterPurge: `DELETE FROM usage WHERE (owner, id) IN (SELECT owner, id FROM usage WHERE bytes > 0 LIMIT 1)`, Caught: []string{"usage/many-rows", "usage/race", "model/history"}},
		{Name: "a purge counts rows twice", AfterPurge: `INSERT INTO usage (owner, id, bytes, uploads) SELECT owner, randomblob(16), bytes, uploads FROM usage LIMIT 1`, Caught: []string{"usage/many-rows"}},
		{Name: "adds up usage twice", AfterPurge: `UPDATE usage_sums SET bytes = 2 * bytes`, Caught: []string{"usage/many-rows"}},
		{Name: "forgets the sums", BeforePurge: `DELETE FROM usage_sums`, Caught: []string{"usage/many-rows"}},
	})
}

// TestBrokenAccountsAreCaught breaks the counts of accounts.
// Invariant 76.
func TestBrokenAccountsAreCaught(t *testing.T) {
	every := []string{"accounts/changes", "accounts/folded", "accounts/race"}
	catch(t, []dbtest.Mutant{
		{Name: "does not count commits", Schema: `DROP TRIGGER blobs_inserted`, Caught: every},
		{Name: "does not count bytes", Schema: dbtest.On(`AFTER INSERT ON account_sums`, `UPDATE account_sums SET bytes = 0`), Caught: append(every, "accounts/pages", "accounts/purge")},
		{Name: "keeps an account without blobs", Schema: dbtest.On(deleted, `INSERT INTO account_sums (account, blobs, bytes) VALUES (OLD.account, 1, 0) ON CONFLICT (account) DO UPDATE SET blobs = blobs + 1`), Caught: append(every, "model/history")},
		{Name: "does not count a complete", Schema: dbtest.On(committed, `UPDATE account_sums SET bytes = bytes - NEW.size WHERE account = NEW.account`), Caught: []string{"accounts/changes", "accounts/race"}},
		{Name: "does not count purged blobs", Schema: dbtest.On(purged, `UPDATE account_sums SET blobs = blobs + 1 WHERE account = OLD.account`), Caught: []string{"accounts/purge"}},
		{Name: "forgets the sums", AfterPurge: `DELETE FROM account_sums`, Caught: []string{"accounts/pages", "accounts/purge", "accounts/folded", "accounts/race"}},
	})
}
