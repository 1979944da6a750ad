package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/ledger"
	"sluice/test/testclock"
	"sluice/test/testenv"
)

// TestFoldedSalesTakeNoRows counts the rows of a channel that sells, and has its settlements
// booked, for months: their number does not grow.
// Invariant 17.
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
// Invariant 132.
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
// Invariant 132.
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
