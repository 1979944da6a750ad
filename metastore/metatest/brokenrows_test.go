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

	firstShared = `AFTER INSERT ON shares`
	countedUp   = `AFTER UPDATE OF refs ON shares WHEN NEW.refs > OLD.refs`
	countedDown = `AFTER UPDATE OF refs ON shares WHEN NEW.refs < OLD.refs`
)

// TestBrokenRowsAreCaught breaks a store's rows. Planted faults break how its methods answer.
func TestBrokenRowsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "overwrite loses the garbage", Schema: dbtest.On(`AFTER INSERT ON garbage`, `DELETE FROM garbage WHERE content = NEW.content; DELETE FROM extents WHERE content = NEW.content`), Caught: []string{"blobs/overwrite", "garbage/life"}},
		{Name: "keeps extents that were stored ahead", Schema: dbtest.On(`AFTER UPDATE OF since ON garbage`, `UPDATE garbage SET since = 1 << 62 WHERE content = NEW.content`), Caught: []string{"blobs/large-refused"}},
		{Name: "calls every date unique", Schema: dbtest.On(`AFTER UPDATE ON blobs`, `UPDATE blobs SET shared_second = 0 WHERE content = NEW.content`), Caught: []string{"blobs/dates"}},
		{Name: "keeps the metadata of a replaced blob", Schema: dbtest.On(replaced, `UPDATE blobs SET metadata = CAST(NEW.content || substr(OLD.metadata, 17) AS BLOB) WHERE content = NEW.content AND COALESCE(length(NEW.metadata), 0) = 0`), Caught: []string{"blobs/metadata"}},
		{Name: "loses the metadata of an upload", Schema: dbtest.On(`AFTER INSERT ON uploads`, `UPDATE uploads SET metadata = NULL WHERE id = NEW.id`), Caught: []string{"blobs/metadata", "uploads/life", "model/history"}},
		{Name: "cuts metadata", Schema: dbtest.On(replaced, `UPDATE blobs SET metadata = substr(metadata, 1, 2000) WHERE content = NEW.content`), Caught: []string{"blobs/metadata"}},
		{Name: "loses the owner in a complete", Schema: dbtest.On(committed, `UPDATE blobs SET owner = NULL WHERE content = NEW.content`), Caught: []string{"usage/owners"}},
		{Name: "heals without garbage", Schema: dbtest.On(`AFTER INSERT ON garbage WHEN NEW.owner IS NULL AND NEW.charge = 0`, `DELETE FROM extents WHERE content = NEW.content; DELETE FROM garbage WHERE content = NEW.content`), Caught: []string{"integrity/heal"}},
		{Name: "keeps the record of healed damage", Schema: dbtest.On(`AFTER DELETE ON damaged`, `INSERT INTO damaged SELECT OLD.content, OLD.part, OLD.off, OLD.size, OLD.object, OLD.bad, OLD.bytes, OLD.since, OLD.reason`), Caught: []string{"integrity/heal", "integrity/damage"}},
		{Name: "keeps the damaged body", Schema: dbtest.On(`AFTER UPDATE ON bodies`, `UPDATE bodies SET body = OLD.body WHERE content = OLD.content AND part = OLD.part AND off = OLD.off`), Caught: []string{"integrity/heal-body"}},
		{Name: "aliases do not change the version", Schema: dbtest.On(`AFTER UPDATE ON aliases_version`, `UPDATE aliases_version SET version = 0`), Caught: []string{"aliases/version"}},
	})
}

// TestBrokenWebhooksAreCaught breaks the rows of webhooks.
func TestBrokenWebhooksAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "keeps a deleted webhook", Schema: dbtest.On(`AFTER DELETE ON webhooks`, `INSERT INTO webhooks SELECT OLD.id, OLD.key_group, OLD.created, OLD.settings, OLD.progress`), Caught: []string{"webhooks/life"}},
		{Name: "a change keeps the settings", Schema: dbtest.On(`AFTER UPDATE OF settings ON webhooks`, `UPDATE webhooks SET settings = OLD.settings WHERE id = NEW.id`), Caught: []string{"webhooks/life", "webhooks/race"}},
		{Name: "a change keeps the group", Schema: dbtest.On(`AFTER UPDATE OF key_group ON webhooks`, `UPDATE webhooks SET key_group = OLD.key_group WHERE id = NEW.id`), Caught: []string{"webhooks/life"}},
		{Name: "a step is lost", Schema: dbtest.On(`AFTER UPDATE OF progress ON webhooks WHEN NEW.settings = OLD.settings`, `UPDATE webhooks SET progress = OLD.progress WHERE id = NEW.id`), Caught: []string{"webhooks/progress", "webhooks/race"}},
		{Name: "a step skips a change", Schema: dbtest.On(`AFTER UPDATE OF progress ON webhooks WHEN instr(NEW.progress, CAST('"Number":1}' AS BLOB)) > 0`, `UPDATE webhooks SET progress = CAST(replace(NEW.progress, '"Number":1}', '"Number":2}') AS BLOB) WHERE id = NEW.id`), Caught: []string{"webhooks/progress", "webhooks/race"}},
		{Name: "a repeated request makes another", Schema: dbtest.On(`AFTER INSERT ON idempotency`, `DELETE FROM idempotency WHERE id = NEW.id`), Caught: []string{"webhooks/once"}},
	})
}

// TestBrokenUsageIsCaught breaks the counts of owners.
func TestBrokenUsageIsCaught(t *testing.T) {
	const owner = `(SELECT u.owner FROM uploads u WHERE u.content = NEW.content)`
	catch(t, []dbtest.Mutant{
		{Name: "an overwrite releases nothing", Schema: dbtest.On(replaced, charge("OLD.owner", "bytes", "OLD.size")), Caught: []string{"usage/blobs", "usage/race-one-name"}},
		{Name: "an overwrite releases usage of the writer", Schema: dbtest.On(replaced, charge("OLD.owner", "bytes", "OLD.size")+"; "+charge("NEW.owner", "bytes", "-OLD.size")), Caught: []string{"usage/blobs"}},
		{Name: "a delete releases nothing", Schema: dbtest.On(deleted, charge("OLD.owner", "bytes", "OLD.size")), Caught: []string{"usage/blobs", "usage/race"}},
		{Name: "an abort releases nothing", Schema: dbtest.On(aborted, charge("NEW.owner", "bytes", "NEW.bytes")+"; "+charge("NEW.owner", "uploads", "1")), Caught: []string{"usage/uploads", "usage/complete"}},
		{Name: "a part sent again counts twice", Schema: dbtest.On(resent, charge(owner, "bytes", "OLD.size")), Caught: []string{"usage/uploads"}},
		{Name: "a complete counts the parts again", Schema: dbtest.On(committed, charge("NEW.owner", "bytes", "NEW.bytes")), Caught: []string{"usage/complete"}},
		{Name: "a complete leaves the upload open", Schema: dbtest.On(committed, charge("NEW.owner", "uploads", "1")), Caught: []string{"usage/complete"}},
		{Name: "a purge releases nothing", Schema: dbtest.On(purged, charge("OLD.owner", "bytes", "OLD.size")), Caught: []string{"usage/purge"}},
		{Name: "metadata does not count", Schema: dbtest.On(`AFTER INSERT ON blobs`, charge("NEW.owner", "names", "16 - length(NEW.metadata)")), Caught: []string{"usage/metadata"}},
		{Name: "replaced metadata counts on", Schema: dbtest.On(replaced, charge("OLD.owner", "names", "length(OLD.metadata) - 16")), Caught: []string{"usage/metadata"}},
		{Name: "purged metadata counts on", Schema: dbtest.On(purged, charge("OLD.owner", "names", "length(OLD.metadata) - 16")), Caught: []string{"usage/metadata"}},
		{Name: "counts an overwritten blob twice", Schema: dbtest.On(replaced, charge("NEW.owner", "objects", "1")), Caught: []string{"usage/objects"}},
		{Name: "forgets the names", Schema: dbtest.On(`AFTER INSERT ON usage`, `UPDATE usage SET names = 0`), Caught: []string{"usage/objects"}},
		{Name: "forgets the objects", Schema: dbtest.On(`AFTER INSERT ON usage`, `UPDATE usage SET objects = 0`), Caught: []string{"usage/objects"}},
		{Name: "forgets the channels", Schema: dbtest.On(`AFTER INSERT ON usage`, `UPDATE usage SET channels = 0`), Caught: []string{"usage/channels"}},
		{Name: "releases no garbage", Schema: dbtest.On(`AFTER DELETE ON garbage`, charge("OLD.owner", "retained", "OLD.charge")), Caught: []string{"usage/retained"}},
		{Name: "forgets the garbage", BeforePurge: `UPDATE usage SET retained = 0`, Caught: []string{"usage/retained"}},
		{Name: "a purge loses a row", AfterPurge: `DELETE FROM usage WHERE (owner, id) IN (SELECT owner, id FROM usage WHERE bytes > 0 LIMIT 1)`, Caught: []string{"usage/many-rows", "usage/race", "model/history"}},
		{Name: "a purge counts rows twice", AfterPurge: `INSERT INTO usage (owner, id, bytes, uploads) SELECT owner, randomblob(16), bytes, uploads FROM usage LIMIT 1`, Caught: []string{"usage/many-rows"}},
		{Name: "adds up usage twice", AfterPurge: `UPDATE usage_sums SET bytes = 2 * bytes`, Caught: []string{"usage/many-rows"}},
		{Name: "forgets the sums", BeforePurge: `DELETE FROM usage_sums`, Caught: []string{"usage/many-rows"}},
	})
}

// TestBrokenVersionsAreCaught breaks how a store keeps versions.
func TestBrokenVersionsAreCaught(t *testing.T) {
	const kept = `AFTER INSERT ON blobs WHEN NEW.account >= x'7e7e'`
	every := []string{"versions/history", "versions/clock"}
	catch(t, []dbtest.Mutant{
		{Name: "keeps nothing", Schema: dbtest.On(kept, `DELETE FROM blobs WHERE account = NEW.account AND name_head = NEW.name_head AND name_hash = NEW.name_hash`), Caught: every},
		{Name: "sets no marks", Schema: dbtest.On(kept+` AND NEW.size = 0`, `DELETE FROM blobs WHERE account = NEW.account AND name_head = NEW.name_head AND name_hash = NEW.name_hash`), Caught: every},
		{Name: "keeps versions for ever", Schema: dbtest.On(kept, `UPDATE blobs SET expires = NULL WHERE account = NEW.account AND name_head = NEW.name_head AND name_hash = NEW.name_hash`), Caught: []string{"versions/history"}},
		{Name: "loses the setting", Schema: dbtest.On(`AFTER INSERT ON keeping`, `DELETE FROM keeping`), Caught: append(every, "versions/set-while-written", "versions/writers", "versions/restated")},
		{Name: "loses the number of versions", Schema: dbtest.On(`AFTER UPDATE ON keeping`, `UPDATE keeping SET most = 0`), Caught: []string{"versions/history"}},
	})
}

// TestBrokenRulesAreCaught breaks how a store applies rules.
// Invariant 212.
func TestBrokenRulesAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "loses rules", Schema: dbtest.On(`AFTER INSERT ON rules`, `DELETE FROM rules WHERE account = NEW.account`), Caught: []string{"rules/setting", "rules/places", "rules/history"}},
		{Name: "loses the last run", Schema: dbtest.On(`AFTER UPDATE OF last ON rules`, `UPDATE rules SET last = NULL WHERE account = NEW.account`), Caught: []string{"rules/setting", "rules/history"}},
		{Name: "runs again at once", Schema: dbtest.On(`AFTER UPDATE OF progress ON rules WHEN NEW.progress IS NOT NULL`, `UPDATE rules SET due = due + 1 WHERE account = NEW.account`), Caught: []string{"rules/history"}},
		{Name: "takes the bytes of a copy", Schema: dbtest.On(`AFTER UPDATE OF last ON rules`, `INSERT OR IGNORE INTO garbage (content, since, charge) SELECT content, 0, 0 FROM blobs WHERE shared = 1`), Caught: []string{"rules/places"}},
	})
}

// TestBrokenChangesAreCaught breaks the record of changes.
// Invariant 224.
func TestBrokenChangesAreCaught(t *testing.T) {
	const recorded = `AFTER INSERT ON changes`
	every := []string{"changes/kinds", "changes/versions", "changes/selection", "changes/race", "changes/age", "changes/bound"}
	catch(t, []dbtest.Mutant{
		{Name: "records nothing", Schema: dbtest.On(recorded, `DELETE FROM changes WHERE last = NEW.last`), Caught: every},
		{Name: "loses a change of two", Schema: dbtest.On(recorded+` WHEN NEW.last % 2 = 0`, `DELETE FROM changes WHERE last = NEW.last - 1`), Caught: []string{"changes/selection", "changes/bound"}},
		{Name: "purges the newest change", Schema: dbtest.On(`AFTER DELETE ON changes`, `DELETE FROM changes`), Caught: []string{"changes/age"}},
		{Name: "forgets how far it has purged", Schema: dbtest.On(`AFTER UPDATE OF purged ON changes_state`, `UPDATE changes_state SET purged = 0`), Caught: []string{"changes/age"}},
		{Name: "counts changes twice", Schema: dbtest.On(`AFTER UPDATE OF counted ON changes_state`, `UPDATE changes_state SET counted = 0`), Caught: []string{"changes/age", "changes/bound"}},
		{Name: "counts no changes", Schema: dbtest.On(`AFTER INSERT ON change_owners`, `UPDATE change_owners SET changes = 0, bytes = 0`), Caught: []string{"changes/age", "changes/bound"}},
		{Name: "forgets the floors of accounts", Schema: dbtest.On(`AFTER INSERT ON change_floors`, `DELETE FROM change_floors`), Caught: []string{"changes/bound"}},
		{Name: "has one floor for all accounts", Schema: dbtest.On(`AFTER INSERT ON change_floors`, `INSERT OR REPLACE INTO change_floors (account, floor) VALUES (CAST('quiet' AS BLOB), NEW.floor)`), Caught: []string{"changes/bound"}},
		{Name: "evicts everybody's changes", Schema: dbtest.On(`AFTER UPDATE OF evicted ON changes_state`, `DELETE FROM changes WHERE last <= 4`), Caught: []string{"changes/bound"}},
		{Name: "evicts without a count", Schema: dbtest.On(`AFTER UPDATE OF evicted ON changes_state`, `UPDATE changes_state SET evicted = 0`), Caught: []string{"changes/bound"}},
		{Name: "keeps the generation", Schema: dbtest.On(`AFTER UPDATE OF generation ON history`, `UPDATE history SET generation = OLD.generation`), Caught: []string{"changes/gone"}},
	})
}

// TestBrokenAccountsAreCaught breaks the counts of accounts.
// Invariant 76.
func TestBrokenAccountsAreCaught(t *testing.T) {
	every := []string{"accounts/changes", "accounts/folded", "accounts/race"}
	catch(t, []dbtest.Mutant{
		{Name: "does not count commits", Schema: `DROP TRIGGER blobs_inserted`, Caught: every},
		{Name: "does not count bytes", Schema: dbtest.On(`AFTER INSERT ON account_sums`, `UPDATE account_sums SET bytes = 0`), Caught: append(every, "accounts/pages", "accounts/purge")},
		{Name: "keeps an account without blobs", Schema: dbtest.On(deleted, `INSERT INTO account_sums (account, blobs, bytes) VALUES (OLD.account, 1, 0) ON CONFLICT (account) DO UPDATE SET blobs = blobs + 1`), Caught: every},
		{Name: "does not count a complete", Schema: dbtest.On(committed, `UPDATE account_sums SET bytes = bytes - NEW.size WHERE account = NEW.account`), Caught: []string{"accounts/changes", "accounts/race"}},
		{Name: "does not count purged blobs", Schema: dbtest.On(purged, `UPDATE account_sums SET blobs = blobs + 1 WHERE account = OLD.account`), Caught: []string{"accounts/purge"}},
		{Name: "forgets the sums", AfterPurge: `DELETE FROM account_sums`, Caught: []string{"accounts/pages", "accounts/purge", "accounts/folded", "accounts/race"}},
	})
}

// TestBrokenSharesAreCaught breaks how a store counts the blobs that share a content.
func TestBrokenSharesAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "shares without counting", Schema: dbtest.On(firstShared, `DELETE FROM shares WHERE content = NEW.content`), Caught: []string{"copies/last-blob", "copies/race-delete", "copies/race-all"}},
		{Name: "does not count a second copy", Schema: dbtest.On(countedUp, `UPDATE shares SET refs = OLD.refs WHERE content = NEW.content`), Caught: []string{"copies/last-blob", "copies/race-delete"}},
		{Name: "counts a second copy twice", Schema: dbtest.On(countedUp, `UPDATE shares SET refs = refs + 1 WHERE content = NEW.content`), Caught: []string{"copies/last-blob"}},
		{Name: "counts the source twice", Schema: dbtest.On(firstShared, `UPDATE shares SET refs = 3 WHERE content = NEW.content`), Caught: []string{"copies/over", "copies/delete", "moves/usage"}},
		{Name: "counts down twice", Schema: dbtest.On(countedDown, `UPDATE shares SET refs = MAX(1, refs - 1) WHERE content = NEW.content`), Caught: []string{"copies/last-blob"}},
		{Name: "does not count down", Schema: dbtest.On(countedDown, `UPDATE shares SET refs = OLD.refs WHERE content = NEW.content`), Caught: []string{"copies/over", "moves/over"}},
		{Name: "frees with the first blob", Schema: dbtest.On(countedDown, `INSERT OR IGNORE INTO garbage (content, since, charge) VALUES (NEW.content, 0, 0)`), Caught: []string{"copies/contents", "copies/last-blob", "moves/over"}},
		{Name: "a replacement keeps its reference", Schema: dbtest.On(replaced+` WHEN OLD.shared <> 0 AND NEW.content <> OLD.content`, `UPDATE shares SET refs = refs + 1 WHERE content = OLD.content`), Caught: []string{"copies/over", "copies/last-blob", "model/history"}},
		{Name: "a purge ends shares of other blobs", BeforePurge: `UPDATE shares SET refs = 1 WHERE content IN (SELECT content FROM blobs WHERE expires IS NOT NULL)`, Caught: []string{"copies/expiry", "copies/last-blob", "copies/race-purge"}},
		{Name: "a purge forgets shares", BeforePurge: `UPDATE blobs SET shared = 0 WHERE expires IS NOT NULL`, Caught: []string{"copies/expiry", "copies/last-blob"}},
		{Name: "a copy is free", Schema: dbtest.On(`AFTER INSERT ON blobs WHEN NEW.shared <> 0`, charge("NEW.owner", "bytes", "-NEW.size")), Caught: []string{"moves/usage", "copies/race-move"}},
		{Name: "garbage of a share is free", Schema: dbtest.On(`AFTER DELETE ON shares`, charge("(SELECT b.owner FROM blobs b WHERE b.content = OLD.content)", "retained", "-1024")), Caught: []string{"moves/usage"}},
	})
}

// TestBrokenUnevenPartsAreCaught breaks a store's rows of uneven parts.
func TestBrokenUnevenPartsAreCaught(t *testing.T) {
	const begun = `AFTER INSERT ON starts`
	start := func(value string) string {
		return dbtest.On(begun, `UPDATE starts SET `+value+` WHERE content = NEW.content AND part = NEW.part`)
	}
	catch(t, []dbtest.Mutant{
		{Name: "does not date parts", Schema: dbtest.On(`AFTER INSERT ON parts`, `UPDATE parts SET stored = NULL WHERE content = NEW.content`), Caught: []string{"uploads/parts"}},
		{Name: "dates a part once", Schema: dbtest.On(resent, `UPDATE parts SET stored = OLD.stored WHERE content = NEW.content AND idx = NEW.idx`), Caught: []string{"uploads/parts"}},
		{Name: "keeps a part's first checksum", Schema: dbtest.On(resent, `UPDATE parts SET checksum = OLD.checksum WHERE content = NEW.content AND idx = NEW.idx`), Caught: []string{"uploads/parts"}},
		{Name: "forgets the checksums of chosen parts", Schema: start(`checksum = NULL`), Caught: []string{"uneven/complete", "uneven/even"}},
		{Name: "forgets where parts begin", Schema: dbtest.On(begun, `DELETE FROM starts WHERE content = NEW.content`), Caught: []string{"uneven/complete", "uneven/many"}},
		{Name: "begins parts too late", Schema: start(`start = start + 1`), Caught: []string{"uneven/complete", "uneven/unchosen", "uneven/many"}},
		{Name: "begins parts at the last one", Schema: start(`start = start - size`), Caught: []string{"uneven/complete", "uneven/race"}},
		{Name: "sizes parts wrongly", Schema: start(`size = size + 1`), Caught: []string{"uneven/complete", "uneven/repeated"}},
		{Name: "keeps the starts of dropped contents", Schema: `DROP TRIGGER starts_dropped`, Caught: []string{"uneven/garbage"}},
		{Name: "drops the starts with the blob", Schema: dbtest.On(`AFTER INSERT ON garbage`, `DELETE FROM starts WHERE content = NEW.content`), Caught: []string{"uneven/garbage"}},
		{Name: "drops the starts with the first copy", Schema: dbtest.On(countedDown, `DELETE FROM starts WHERE content = NEW.content`), Caught: []string{"uneven/copies"}},
		{Name: "a part that is not chosen is free", Schema: dbtest.On(committed, charge("NEW.owner", "retained", "NEW.size - NEW.bytes")), Caught: []string{"uneven/usage"}},
		{Name: "a part that is not chosen has no rows", Schema: dbtest.On(committed+" AND NEW.size < NEW.bytes", charge("NEW.owner", "retained", "-1024")), Caught: []string{"uneven/usage"}},
	})
}
