package sqlstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/ledger"
	"sluice/test/testenv"
)

const (
	auditedChannel = "unguessable-channel"
	auditedSession = "unguessable-session"
)

// openAudited opens a store with the rows of fillAudited.
func openAudited(t *testing.T) *Store {
	t.Helper()
	s := openAt(t, databasePath(t), Options{})
	fillAudited(t, s)
	return s
}

// fillAudited stores a channel that sold to a session and to a read, had a return and was partly
// settled, and a granted session.
func fillAudited(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	expires := time.Now().Add(time.Hour)
	testenv.Must(s.OpenChannel(ctx, ledger.Channel{ID: auditedChannel, Sender: "s", Receiver: "r", Asset: "a", Deposit: 100, Expires: expires}, nil))(t)
	pay := func(sequence, amount int64) ledger.Offer {
		return ledger.Offer{Payment: ledger.Payment{
			Sender: "s", Receiver: "r", Asset: "a", Sequence: sequence, Amount: amount,
			Proof: []byte("proof"), Expires: expires,
		}, Policy: ledger.Policy{UnsettledLimit: 100}}
	}
	buy := ledger.Purchase{Offer: pay(1, 50), Price: 7, Session: ledger.Session{ID: auditedSession, Expires: expires}}
	testenv.Must(s.Buy(ctx, buy, nil))(t)
	testenv.Must(s.PayRead(ctx, ledger.ReadPurchase{Offer: pay(2, 60), Price: 5, Count: 2}))(t)
	testenv.Must(s.ReturnCredit(ctx, auditedChannel, 1, 5, "r"))(t)
	testenv.Must(s.UseSession(ctx, auditedSession, 3, nil))(t)
	testenv.Must(s.CreateSession(ctx, ledger.Session{ID: "unguessable-granted", Total: 5, Left: 5, Expires: expires}, nil))(t)
	testenv.OK(t, s.Book(ctx, []ledger.Settlement{{Channel: auditedChannel, Sequence: 1, Amount: 50}}))
}

// sharedBlobs inserts two blobs that share a content.
var sharedBlobs = rawBlob("a", "b", 0) + rawBlob("a", "c", 0) + `
	UPDATE blobs SET content = x'30313233343536373839616263646566', shared = 1;
	INSERT INTO shares VALUES (x'30313233343536373839616263646566', 2);`

// unevenBlob inserts a blob of 12 bytes in the parts 1 and 3.
var unevenBlob = rawBlob("a", "b", 12) + `
	INSERT INTO starts (content, part, start, size) SELECT content, 1, 0, 5 FROM blobs UNION ALL SELECT content, 3, 5, 7 FROM blobs;
	INSERT INTO extents (content, part, off, size, blocks, object) SELECT content, part, 0, size, x'', CAST('object' || part AS BLOB) FROM starts;
	UPDATE blobs SET part_size = 70368744177664;`

// evenBlob inserts a blob of 12 bytes in parts of 7 bytes, the first of them in two extents, for an
// owner.
var evenBlob = rawBlob("a", "b", 12) + `
	INSERT INTO extents (content, part, off, size, blocks) SELECT content, 0, 0, 3, x'' FROM blobs UNION ALL SELECT content, 0, 3, 4, x'' FROM blobs
		UNION ALL SELECT content, 1, 0, 5, x'' FROM blobs;
	INSERT INTO bodies SELECT content, part, off, zeroblob(size) FROM extents;
	UPDATE blobs SET part_size = 7, owner = CAST('o' AS BLOB);
	INSERT INTO usage (owner, id, bytes, uploads, objects, names) VALUES (CAST('o' AS BLOB), x'00', 12, 0, 1, 1);`

// openedUpload inserts an open upload with a part of 5 bytes.
var openedUpload = `INSERT INTO uploads (id, account, name, content, part_size, content_type, create_only, state, bytes, revision, created, touched, size, crc64, parts)
		VALUES (CAST('unguessable-upload' AS BLOB), CAST('a' AS BLOB), x'62', x'30313233343536373839616263646566', 5, x'', 0, 0, 5, 1, 0, 0, 0, 0, 1);
	INSERT INTO parts (content, idx, size, crc64) SELECT content, 0, 5, 0 FROM uploads;
	INSERT INTO extents (content, part, off, size, blocks, object) SELECT content, 0, 0, 5, x'', x'6f' FROM uploads;`

// TestAuditFindsDamage damages the tables in one way at a time and repairs them.
// Invariants 5, 17, 113.
func TestAuditFindsDamage(t *testing.T) {
	s := openAudited(t)
	undo := errors.New("undo")
	for _, c := range []struct {
		name, damage, says string
	}{
		{"nothing", `SELECT 1`, ""},
		{"credit", `UPDATE channels SET credit = credit + 1`, "sales of"},
		{"accepted lowered", `UPDATE channels SET accepted = accepted - 1`, "sales of"},
		{"sale lost", `DELETE FROM sales WHERE session IS NULL AND count > 0`, "sales of"},
		{"sale twice", `INSERT INTO sales SELECT randomblob(16), channel, NULL, session, count, price, at, NULL FROM sales WHERE session IS NOT NULL`, "were sold to it"},
		{"return lost", `DELETE FROM sales WHERE count < 0`, "sales of"},
		{"folded", `UPDATE channels SET folded = folded + 1`, "sales of"},
		{"sums that overflow", `INSERT INTO sales (id, channel, count, price, at) VALUES (x'00', CAST('unguessable-channel' AS BLOB), 4611686018427387904, 4611686018427387904, 0)`, "sales of"},
		{"deposit", `UPDATE channels SET deposit = 59`, "are inconsistent"},
		{"settled too much", `UPDATE channels SET settled = 61`, "are inconsistent"},
		{"settled below zero", `UPDATE channels SET settled = -1`, "are inconsistent"},
		{"proof lost", `UPDATE channels SET proof = NULL`, "proof of 0 bytes"},
		{"sender lost", `UPDATE channels SET sender = x''`, "from sender"},
		{"settlement lost", `DELETE FROM settlements`, "no settlement is pending"},
		{"settlement changed", `UPDATE settlements SET amount = 59`, "the settlement of"},
		{"settlement of another proof", `UPDATE settlements SET proof = x'00'`, "the settlement of"},
		{"settlement of no channel", `UPDATE settlements SET channel = CAST('unguessable-other' AS BLOB)`, "does not exist"},
		{"channel lost", `DELETE FROM channels`, "does not exist"},
		{"paid out too much", `UPDATE ledger SET amount = 61`, "was paid out"},
		{"paid out for a later payment", `UPDATE ledger SET sequence = 3`, "was paid out"},
		{"paid out backwards", `INSERT INTO ledger SELECT channel, sequence + 1, amount - 1, at FROM ledger`, "after 50"},
		{"used", `UPDATE sessions SET used = used + 1`, "do not add up to the total"},
		{"left", `UPDATE sessions SET remaining = remaining + 1`, "do not add up to the total"},
		{"total and left", `UPDATE sessions SET remaining = remaining + 1, total = total + 1`, "were sold to it"},
		{"account miscounted", `INSERT INTO account_sums VALUES (CAST('a' AS BLOB), 1, 5)`, `account "a": 1 blobs of 5 bytes are counted, but there are 0 of 0`},
		{"account not counted", `INSERT INTO account_deltas VALUES (CAST('a' AS BLOB), 1, 0, -1)`, "0 blobs of -1 bytes are counted"},
		{"blob not counted", rawBlob("a", "b", 7) + ` DELETE FROM account_sums`, `but there are 1 of 7`},
		{"content of two blobs", rawBlob("a", "b", 0) + rawBlob("a", "c", 0) + ` UPDATE blobs SET content = x'30313233343536373839616263646566'`, "0 references are counted, but there are 2 blobs, of them 0 marked"},
		{"share not counted", sharedBlobs + ` DELETE FROM shares`, "0 references are counted, but there are 2 blobs, of them 2 marked"},
		{"share miscounted", sharedBlobs + ` UPDATE shares SET refs = 1`, "1 references are counted, but there are 2 blobs, of them 2 marked"},
		{"share not marked", sharedBlobs + ` UPDATE blobs SET shared = 0 WHERE name_head = CAST('b' AS BLOB); UPDATE shares SET refs = 1`, "1 references are counted, but there are 2 blobs, of them 1 marked"},
		{"share of no blob", `INSERT INTO shares VALUES (x'30313233343536373839616263646566', 1)`, "1 references are counted, but there are 0 blobs"},
		{"blob of garbage", rawBlob("a", "b", 0) + ` INSERT INTO garbage (content, since) SELECT content, 1 FROM blobs`, "is garbage, but a blob has it"},
		{"shared and exact", sharedBlobs, ""},
		{"uneven and exact", unevenBlob, ""},
		{"starts lost", unevenBlob + ` DELETE FROM starts`, "from part 0 on its parts have 0 bytes, and the blob has 12"},
		{"start lost", unevenBlob + ` DELETE FROM starts WHERE part = 3`, "from part 1 on its parts have 5 bytes, and the blob has 12"},
		{"part too late", unevenBlob + ` UPDATE starts SET start = 6 WHERE part = 3`, "part 3 begins at byte 6, and those before it end at byte 5"},
		{"first part too late", unevenBlob + ` UPDATE starts SET start = start + 1`, "part 1 begins at byte 1, and those before it end at byte 0"},
		{"part of other bytes", unevenBlob + ` UPDATE starts SET size = 8 WHERE part = 3; UPDATE blobs SET size = 13`, "part 3 has 8 bytes, and its extents have 7"},
		{"part without extents", unevenBlob + ` DELETE FROM extents WHERE part = 1`, "part 1 has 5 bytes, and its extents have 0"},
		{"parts of no blob", unevenBlob + ` DELETE FROM blobs`, "no blob has its uneven parts 1 to 3, of 12 bytes"},
		{"parts of an even blob", unevenBlob + ` UPDATE blobs SET part_size = 7`, "no blob has its uneven parts 1 to 3, of 12 bytes"},
		{"parts of garbage", unevenBlob + ` INSERT INTO garbage (content, since) SELECT content, 1 FROM blobs; DELETE FROM blobs; DELETE FROM extents`, ""},
		{"even and exact", evenBlob, ""},
		{"extent lost", evenBlob + ` DELETE FROM extents WHERE part = 1; DELETE FROM bodies WHERE part = 1`, "from part 0 on, have 7 bytes, and its blob has 12"},
		{"all extents lost", evenBlob + ` DELETE FROM extents; DELETE FROM bodies`, "from part 0 on, have 0 bytes, and its blob has 12"},
		{"blob resized", evenBlob + ` UPDATE blobs SET size = 11`, "have 12 bytes, and its blob has 11"},
		{"extent moved", evenBlob + ` UPDATE extents SET off = 2 WHERE off = 3`, "an extent of part 0 begins at byte 2, and those before it end at byte 3"},
		{"extent resized", evenBlob + ` UPDATE extents SET size = 4 WHERE part = 1; UPDATE extents SET size = 5 WHERE off = 3`, "part 0 has 8 bytes, and its blob's parts have 7 there"},
		{"extent in another part", evenBlob + ` UPDATE extents SET part = 2 WHERE part = 1`, "part 2 has 5 bytes, and its blob's parts have -2 there"},
		{"blob with other parts", evenBlob + ` UPDATE blobs SET part_size = 8`, "part 0 has 7 bytes, and its blob's parts have 8 there"},
		{"blob lost", evenBlob + ` DELETE FROM blobs`, "no blob has its parts 0 to 1, of 12 bytes"},
		{"extents of garbage", evenBlob + ` INSERT INTO garbage (content, since) SELECT content, 1 FROM blobs; DELETE FROM blobs; DELETE FROM usage; DELETE FROM extents WHERE off = 0 AND part = 0`, "that no extent has"},
		{"body of an object", evenBlob + ` UPDATE extents SET object = x'6f' WHERE part = 1`, "part 1 has a body at byte 0 of 5 bytes that no extent has"},
		{"usage miscounted", evenBlob + ` UPDATE usage SET bytes = 13`, `owner "o": counted beyond what is stored: 1 bytes, 0 uploads, 0 objects`},
		{"usage lost", evenBlob + ` DELETE FROM usage`, `-12 bytes, 0 uploads, -1 objects, -1 bytes of names`},
		{"usage of sums", `INSERT INTO usage_sums (owner, bytes, uploads, channels) VALUES (CAST('o' AS BLOB), 0, 1, 2)`, "0 bytes, 1 uploads, 0 objects, 0 bytes of names, 2 channels"},
		{"retained of nothing", `INSERT INTO usage_sums (owner, bytes, uploads, retained) VALUES (CAST('o' AS BLOB), 0, 0, 3)`, "0 channels, 3 bytes retained"},
		{"garbage not counted", `INSERT INTO garbage VALUES (x'30313233343536373839616263646566', 1, CAST('o' AS BLOB), 4)`, "0 channels, -4 bytes retained"},
		{"upload and exact", openedUpload, ""},
		{"upload without a part", openedUpload + ` DELETE FROM parts`, "its upload counts 1 parts, and the bytes that it counts differ by 5; there are 0 parts"},
		{"upload with other bytes", openedUpload + ` UPDATE uploads SET bytes = 4`, "differ by -1; there are 1 parts"},
		{"part of an upload lost", openedUpload + ` DELETE FROM extents`, "part 0 has extents of 0 bytes, and the part of the upload has 5"},
		{"upload of garbage", openedUpload + ` INSERT INTO garbage (content, since) SELECT content, 7 FROM uploads`, "is garbage since 7, but the open upload"},
		{"upload lost", openedUpload + ` DELETE FROM uploads`, "no blob has its parts 0 to 0, of 5 bytes"},
		{"grant below its sales", `UPDATE sessions SET channel = NULL, total = 6, remaining = 3`, "were sold to it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []string
			err := s.db.Write(t.Context(), func(t *engine.Tx) (err error) {
				if err = t.Change(c.damage); err == nil {
					found, _, err = auditPages(t, 1)
				}
				return errors.Join(err, undo)
			})
			if err == nil || err.Error() != undo.Error() {
				t.Fatal(err)
			}
			if (len(found) == 0) != (c.says == "") {
				t.Fatalf("the audit found %q", found)
			}
			if all := strings.Join(found, "\n"); !strings.Contains(all, c.says) || strings.Contains(all, "unguess") {
				t.Fatalf("the audit found %q, want %q, and no whole id", found, c.says)
			}
		})
	}
	audited(t, s)
}

// TestAuditFindsWrongPayouts books what was never accepted, on both engines.
// Invariant 17.
func TestAuditFindsWrongPayouts(t *testing.T) {
	undo := errors.New("undo")
	onBoth(t, func(t *testing.T, s *Store) {
		fillAudited(t, s)
		for name, c := range map[string]struct {
			payout ledger.Settlement
			says   string
		}{
			"of a later payment":      {ledger.Settlement{Channel: auditedChannel, Sequence: 3, Amount: 61}, "but 60 was accepted at 2"},
			"of more than was sold":   {ledger.Settlement{Channel: auditedChannel, Sequence: 2, Amount: 61}, "but 60 was accepted at 2"},
			"after a larger one":      {ledger.Settlement{Channel: auditedChannel, Sequence: 2, Amount: 49}, "after 50"},
			"over an unknown channel": {ledger.Settlement{Channel: "unguessable-other", Sequence: 1, Amount: 1}, "a payout belongs to channel"},
		} {
			var found []string
			err := s.db.Write(t.Context(), func(t *engine.Tx) (err error) {
				if _, err = t.Exec(`INSERT INTO ledger (channel, sequence, amount, at) VALUES ($1, $2, $3, $4)`,
					[]byte(c.payout.Channel), c.payout.Sequence, c.payout.Amount, engine.Micros(t.Now)); err == nil {
					found, _, err = auditPages(t, 1)
				}
				return errors.Join(err, undo)
			})
			if err == nil || err.Error() != undo.Error() {
				t.Fatal(err)
			}
			if all := strings.Join(found, "\n"); !strings.Contains(all, c.says) || strings.Contains(all, "unguess") {
				t.Errorf("after a payout %s the audit found %q, want %q, and no whole id", name, found, c.says)
			}
		}
		audited(t, s)
	})
}

// TestOnePaymentSellsOnce bypasses the code: the table itself refuses the second sale.
// Invariant 19.
func TestOnePaymentSellsOnce(t *testing.T) {
	s := openAudited(t)
	err := s.db.Write(t.Context(), func(t *engine.Tx) error {
		_, err := t.Exec(`INSERT INTO sales SELECT randomblob(16), channel, sequence, session, count, price, at, NULL FROM sales WHERE sequence = 1`)
		return err
	})
	if err == nil {
		t.Fatal("a payment sold twice")
	}
}
