package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/access/keys"
	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/internal/testclock"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/metastore"
)

// TestFoldedSalesTakeNoRows counts the rows of a channel that sells, and has its settlements
// booked, for months: their number does not grow.
func TestFoldedSalesTakeNoRows(t *testing.T) {
	clock := testclock.New()
	s := openAt(t, databasePath(t), Options{Now: clock.Now})
	ctx := t.Context()
	expires := clock.Now().Add(1000 * 24 * time.Hour)
	testenv.Must(s.OpenChannel(ctx, ledger.Channel{ID: "c", Sender: "s", Receiver: "r", Asset: "a", Deposit: 1 << 40, Expires: expires}, nil))(t)
	var sequence int64
	for range 4 { // months
		var payments []ledger.Settlement
		for i := range 20 {
			sequence++
			pay := ledger.Offer{Payment: ledger.Payment{Sender: "s", Receiver: "r", Asset: "a", Sequence: sequence, Amount: 10 * sequence,
				Proof: []byte("p"), Expires: expires,
			}, Policy: ledger.Policy{UnsettledLimit: 1 << 40}}
			var err error
			if i%3 == 0 {
				session := ledger.Session{ID: fmt.Sprint(sequence), Expires: clock.Now().Add(time.Hour)}
				_, err = s.Buy(ctx, ledger.Purchase{Offer: pay, Price: 3, Session: session}, nil)
			} else {
				_, err = s.PayRead(ctx, ledger.ReadPurchase{Offer: pay, Price: 2, Count: 5})
			}
			testenv.OK(t, err)
			payments = append(payments, ledger.Settlement{Channel: "c", Sequence: sequence, Amount: 10 * sequence})
		}
		for i, p := range payments { // and earlier ones again
			testenv.OK(t, errors.Join(s.Book(ctx, []ledger.Settlement{p}), s.Book(ctx, payments[i/2:i/2+1])))
		}
		clock.Advance(ledger.SessionRetention + time.Hour)
		for n := 1; n > 0; {
			n = testenv.Must(s.Purge(ctx, 7))(t)
			audited(t, s)
		}
		for table, want := range map[string]int64{"sales": 0, "session_terms": 0, "session_counts": 0, "ledger": 1, "channels": 1} {
			holds(t, s, want, `SELECT COUNT(*) FROM `+table)
		}
	}
	holds(t, s, 0, `SELECT folded + credit - accepted FROM channels`)
}

// TestAuditIsBounded: an audit's number of findings is bounded, and the last one has their total.
func TestAuditIsBounded(t *testing.T) {
	s := openAt(t, databasePath(t), Options{})
	execute(t, s, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
			INSERT INTO sessions (id, user_identity, total, remaining, created, expires, used)
			SELECT CAST(i AS BLOB), x'', 5, 5, 0, 0, 1 FROM n`)
	found, err := s.Audit(t.Context())
	if err != nil || len(found) != database.MaxFindings || !strings.HasPrefix(found[0], "session ") {
		t.Fatalf("%d findings, %v", len(found), err)
	}
	if last := found[len(found)-1]; !strings.Contains(last, "2500") {
		t.Errorf("the last sentence is %q", last)
	}
}

// large fills the tables that a purge reads with rows that are not due, of many owners or of
// few.
const large = `
	INSERT INTO usage_sums (owner, bytes, uploads) SELECT CAST(%[1]s AS BLOB), 1, 1 FROM n;
	INSERT INTO account_sums (account, blobs, bytes) SELECT CAST(%[1]s AS BLOB), 1, 1 FROM n;
	INSERT INTO channels (id, payment_channel_id, sender, receiver, asset, deposit, created, expires)
		SELECT CAST(%[1]s AS BLOB), i, CAST('s' AS BLOB), CAST('r' AS BLOB), CAST('a' AS BLOB), 1, 1, 1 FROM n;
	INSERT INTO sessions (id, user_identity, total, remaining, created, expires) SELECT CAST(%[1]s AS BLOB), CAST('' AS BLOB), 1, 1, 1, 4000000000000000 FROM n;
	INSERT INTO sales (id, channel, sequence, session, count, price, at) SELECT CAST(%[1]s AS BLOB), CAST(%[1]s AS BLOB), 1, CAST(%[1]s AS BLOB), 1, 1, 1 FROM n;
	INSERT INTO sales (id, channel, sequence, session, count, price, at) SELECT CAST('r' || %[1]s AS BLOB), CAST(%[1]s AS BLOB), 2, NULL, 1, 1, 4000000000000000 FROM n;
	INSERT INTO ledger SELECT CAST(%[1]s AS BLOB), 1, 1, 1 FROM n;`

const largeRows = 50_000

// TestPurgeReadsByIndex looks at a purge's query plans over large tables where nothing is due: none
// scans a whole table.
func TestPurgeReadsByIndex(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		path := databasePath(t)
		s := openAt(t, path, Options{})
		var statements []statement
		record(s, &statements)
		db := testenv.Must(sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"))(t)
		defer func() {
			testenv.Check(t, db.Close())
		}()
		for _, insert := range inserts(`printf('%08x', i)`) {
			into, from, _ := strings.Cut(insert, "SELECT ")
			const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT `
			testenv.Must(db.ExecContext(t.Context(), into+" "+fmt.Sprintf(numbers, largeRows)+from))(t)
		}
		plan := func(text string, in engine.Args) string {
			rows := testenv.Must(db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+text, in...))(t)
			var list []string
			for rows.Next() {
				var id, parent, unused int
				var detail string
				testenv.OK(t, rows.Scan(&id, &parent, &unused, &detail))
				list = append(list, detail)
			}
			testenv.OK(t, errors.Join(rows.Err(), rows.Close()))
			return strings.Join(list, "\n")
		}
		purgesByIndex(t, s, &statements, plan, func(line string) bool {
			return strings.HasPrefix(line, "SCAN ") && line != "SCAN u" // rows of usage and deltas are always purged
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn := testenv.Postgres(t)
		s, p := openNode(t, dsn), enginetest.Connect(t, dsn)
		var statements []statement
		record(s, &statements)
		run := func(text string) {
			testenv.Must(p.Exec(t.Context(), text))(t)
		}
		for _, insert := range inserts(`lpad(to_hex(i), 8, '0')`) {
			run(strings.ReplaceAll(forPostgres(insert), "FROM n", fmt.Sprintf("FROM generate_series(1, %d) n(i)", largeRows)))
		}
		run("ANALYZE")
		plan := func(text string, in engine.Args) string {
			return enginetest.Explain(t, s.db, p, "", text, in...)
		}
		purgesByIndex(t, s, &statements, plan, func(line string) bool {
			for _, table := range []string{"usage_sums", "account_sums", "channels", "sessions", "sales", "ledger"} {
				if strings.Contains(line, "Seq Scan on "+table+" ") {
					return true
				}
			}
			return false
		})
	})
}

func inserts(id string) []string {
	var list []string
	for _, one := range strings.Split(fmt.Sprintf(large, id), ";") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, one)
		}
	}
	return list
}

// purgesByIndex purges a store until nothing is left to do and checks the plans of all
// statements.
func purgesByIndex(t *testing.T, s *Store, statements *[]statement, plan func(string, engine.Args) string, scans func(line string) bool) {
	t.Helper()
	for i := range 40 {
		putFor(t, s, fmt.Sprint("owner", i%3), fmt.Sprint(i), "abc")
	}
	*statements = nil
	for n := 1; n > 0; {
		n = testenv.Must(s.Purge(t.Context(), 30))(t)
	}
	if n := value(t, s, `SELECT COUNT(*) FROM usage`); n >= 30 {
		t.Errorf("%d rows of usage are left", n)
	}
	if len(*statements) < 10 {
		t.Fatalf("a purge ran %d statements", len(*statements))
	}
	for _, one := range *statements {
		if strings.HasPrefix(one.text, "INSERT") || strings.Contains(one.text, "pg_") || strings.Contains(one.text, "clock_timestamp") {
			continue
		}
		text := plan(one.text, one.in)
		if lines := strings.Split(text, "\n"); slices.ContainsFunc(lines, scans) {
			t.Errorf("this reads a whole table:\n%s\n%s", one.text, text)
		}
	}
}

// TestMigratesSales opens databases from the version before sales had ids, on both engines: all
// rows are kept except bookings that newer ones include, and sales to purged sessions can be
// folded.
func TestMigratesSales(t *testing.T) {
	b := func(text string) string { return `CAST('` + text + `' AS BLOB)` }
	rows := `
		INSERT INTO channels (id, payment_channel_id, sender, receiver, asset, deposit, created, expires, accepted, sequence, proof, credit, settled)
			VALUES (` + b("c") + `, 1, ` + b("s") + `, ` + b("r") + `, ` + b("a") + `, 100, 1, 4000000000000000, 60, 4, ` + b("p") + `, 2, 60);
		INSERT INTO sessions (id, user_identity, total, remaining, created, expires, channel, used)
			VALUES (` + b("bought") + `, ` + b("") + `, 10, 10, 1, 4000000000000000, ` + b("c") + `, 0);
		INSERT INTO sales (channel, sequence, session, count, price, at, charge) VALUES
			(` + b("c") + `, 1, ` + b("bought") + `, 10, 2, 1, NULL), (` + b("c") + `, 2, ` + b("forgotten") + `, 10, 2, 1, NULL),
			(` + b("c") + `, 4, NULL, 10, 2, 1, ` + b("charge") + `), (` + b("c") + `, NULL, NULL, -1, 1, 1, NULL), (` + b("c") + `, NULL, NULL, -1, 1, 1, NULL);
		INSERT INTO ledger (channel, sequence, amount, at) VALUES (` + b("c") + `, 1, 20, 1), (` + b("c") + `, 2, 40, 1), (` + b("c") + `, 4, 60, 1);`
	onOlder(t, 8, rows, func(t *testing.T, s *Store) {
		look := func(sales, folded int64) {
			t.Helper()
			holds(t, s, sales, `SELECT COUNT(*) FROM sales`)
			holds(t, s, folded, `SELECT folded FROM channels`)
			audited(t, s)
		}
		look(5, 0)
		holds(t, s, 60, `SELECT CAST(SUM(amount) AS BIGINT) FROM ledger`)
		testenv.Must(s.Purge(t.Context(), 100))(t)
		look(1, 38)
	})
}

// TestMigratesUsage: after the migration, usage is computed from the stored rows, regardless
// of its earlier values.
func TestMigratesUsage(t *testing.T) {
	b := func(text string) string { return `CAST('` + text + `' AS BLOB)` }
	blob := func(head, tail, owner string, size int) string {
		return fmt.Sprintf(`
			INSERT INTO blobs (account, name_head, name_hash, name_tail, content, size, crc64, part_size, content_type, modified, owner)
			VALUES (%s, %s, %s, %s, %s, %d, 0, 0, %s, 1, %s);`, b("a"), b(head), b(tail), b(tail), b("c"+head), size, b(""), owner)
	}
	upload := func(id, owner string, state, bytes int) string {
		content := b(fmt.Sprintf("%-16s", id))
		return fmt.Sprintf(`
			INSERT INTO uploads (id, account, name, content, part_size, content_type, create_only, state, bytes, revision, created, touched, size, crc64, owner)
			VALUES (%s, %s, %s, %s, 5, %s, 0, %d, %d, 0, 4000000000000000, 4000000000000000, 0, 0, %s);
			INSERT INTO parts (content, idx, size, crc64) VALUES (%s, 0, %d, 0), (%s, 1, 1, 0);`,
			b(id), b("a"), b("name of "+id), content, b(""), state, bytes, owner, content, bytes-1, content)
	}
	rows := blob("one", "", b("x"), 10) + blob(strings.Repeat("n", 2000), "tail", b("x"), 0) + blob("other", "", b("y"), 7) + blob("nobody", "", "NULL", 9) +
		upload("open", b("x"), 0, 6) + upload("committed", b("x"), 1, 50) + upload("without an owner", "NULL", 0, 3) + `
		INSERT INTO usage (owner, id, bytes, uploads) VALUES (` + b("x") + `, ` + b("1") + `, 500, 5), (` + b("gone") + `, ` + b("1") + `, 0, 0);
		INSERT INTO usage_sums (owner, bytes, uploads) VALUES (` + b("x") + `, 7, 7);`
	onOlder(t, 9, rows, func(t *testing.T, s *Store) {
		want := metastore.Used{Bytes: 16, Uploads: 1, Objects: 4, Names: 3 + 2004 + 12}
		testenv.Equal(t, usageIsExact(t, s, "x"), want, "the usage of x")
		usageIsExact(t, s, "y")
		holds(t, s, 2, `SELECT COUNT(*) FROM usage_sums`)
		testenv.Equal(t, testenv.Must(s.Upload(t.Context(), "open"))(t).Parts, 2, "the upload")
		testenv.Check(t, testenv.Error(s.AbortUpload(t.Context(), "open")))
		usageIsExact(t, s, "x")
	})
}

// TestMigratesChannels: an older database's channels count towards no owner, owners' usage is
// unchanged, and channels opened later count.
func TestMigratesChannels(t *testing.T) {
	b := func(text string) string { return `CAST('` + text + `' AS BLOB)` }
	rows := `
		INSERT INTO channels (id, payment_channel_id, sender, receiver, asset, deposit, created, expires)
			VALUES (` + b("c") + `, 1, ` + b("s") + `, ` + b("r") + `, ` + b("a") + `, 100, 1, 4000000000000000);
		INSERT INTO key_groups (name, requests_per_second, bytes_in_per_second, bytes_out_per_second, concurrent_requests, stored_bytes, stored_objects, open_uploads)
			VALUES (` + b("x") + `, 1, 2, 3, 4, 5, 6, 7);
		INSERT INTO usage (owner, id, bytes, uploads, objects, names) VALUES (` + b("x") + `, ` + b("1") + `, 1, 2, 3, 4);
		INSERT INTO usage_sums (owner, bytes, uploads, objects, names) VALUES (` + b("x") + `, 10, 20, 30, 40);`
	onOlder(t, 10, rows, func(t *testing.T, s *Store) {
		c, err := s.Channel(t.Context(), "c")
		if err != nil || c.Owner != "" || c.Deposit != 100 {
			t.Errorf("the channel is %+v, %v", c, err)
		}
		uses := func(channels int64) {
			t.Helper()
			used, err := s.Usage(t.Context(), "x")
			if want := (metastore.Used{Bytes: 11, Uploads: 22, Objects: 33, Names: 44, Channels: channels}); err != nil || used != want {
				t.Errorf("x uses %+v, %v; want %+v", used, err, want)
			}
		}
		uses(0)
		k, err := s.CreateKey(t.Context(), keys.Key{ID: "k", Group: "x"})
		if want := (keys.Limits{RequestsPerSecond: 1, BytesInPerSecond: 2, BytesOutPerSecond: 3, ConcurrentRequests: 4, StoredBytes: 5, StoredObjects: 6, OpenUploads: 7}); err != nil || k.Limits != want {
			t.Errorf("the limits are %+v, %v; want %+v", k.Limits, err, want)
		}
		testenv.Check(t, testenv.Error(s.OpenChannel(t.Context(), ledger.Channel{ID: "d", PaymentChannelID: 2, Owner: "x", Expires: s.Now().Add(time.Hour)}, nil)))
		uses(1)
		testenv.Check(t, testenv.Error(s.Purge(t.Context(), 100)))
		uses(1)
	})
}
