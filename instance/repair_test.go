package instance

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/internal/datadir"
	"sluice/storage"
	"sluice/test/testenv"
)

// repairAll repairs a data folder and checks it with all bytes.
func repairAll(t *testing.T, data string) Checked {
	t.Helper()
	return testenv.Must(Check(t.Context(), Location{Data: data}, CheckOptions{Bytes: true, Repair: true}))(t)
}

// stored returns a line for the columns of each table that a repair must not change, and for the
// objects.
func stored(t *testing.T, data string) string {
	t.Helper()
	var lines []string
	db := testenv.Must(sql.Open("sqlite", filepath.Join(data, datadir.Database)))(t)
	for table, columns := range map[string]string{
		"blobs":   "account, name_head, name_tail, content, size, crc64, part_size, sha256, modified, expires, owner, metadata, row_sum",
		"extents": "*", "bodies": "*", "parts": "*", "starts": "*", "garbage": "*", "sessions": "*", "channels": "*", "sales": "*", "settlements": "*", "ledger": "*",
		"uploads": "id, account, name, content, part_size, state, revision, created, touched, ended, size, crc64, charge", "idempotency": "*", "damaged": "*", "history": "*",
	} {
		rows := testenv.Must(db.QueryContext(t.Context(), "SELECT "+columns+" FROM "+table))(t)
		values := make([]any, len(testenv.Must(rows.Columns())(t)))
		for i := range values {
			values[i] = new(any)
		}
		sum, count := sha256.New(), 0
		for ; rows.Next(); count++ {
			testenv.OK(t, rows.Scan(values...))
			for _, v := range values {
				testenv.Must(fmt.Fprintf(sum, "%v,", *v.(*any)))(t)
			}
		}
		testenv.OK(t, errors.Join(rows.Err(), rows.Close()))
		lines = append(lines, fmt.Sprintf("%s: %d rows, %x", table, count, sum.Sum(nil)))
	}
	testenv.OK(t, db.Close())
	slices.Sort(lines)
	return strings.Join(append(lines, fmt.Sprintf("%d objects", len(objectFiles(t, data)))), "\n")
}

// findings returns the findings, sorted because objects are read concurrently.
func findings(found Checked) string {
	var lines []string
	for _, one := range found.Findings {
		lines = append(lines, fmt.Sprintf("%s: %s", one.Kind, one.Text))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestRepair plants each damage in a copy and repairs it: it is repaired or listed, a second repair
// finds the damage that the first has listed and repairs nothing, and nothing but counts has
// changed.
// Invariant 114.
func TestRepair(t *testing.T) {
	original := worked(t)
	for _, c := range plantedDamages() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			data := copyOf(t, original)
			c.damage(t, data)
			before := ""
			if c.kind != DamagedPages {
				before = stored(t, data)
			}
			found := repairAll(t, data)
			if gone := !c.in(found); gone != (c.then != listed) || (found.Found == 0) != (c.then == repaired) {
				t.Errorf("found %d: %+v, failed %q, repaired %q, not %q", found.Found, found.Findings, found.Failed, found.Repaired, found.NotRepaired)
			}
			if found.Repairs == 0 && c.then != listed || found.Repairs != int64(len(found.Repaired)) {
				t.Errorf("%d repairs: %q", found.Repairs, found.Repaired)
			}
			if c.kind == DamagedPages {
				if found.Repairs > 0 || len(found.NotRepaired) != 1 || !strings.Contains(found.NotRepaired[0], "nothing was: ") {
					t.Errorf("damaged pages: repaired %q, not repaired %q", found.Repaired, found.NotRepaired)
				}
				return
			}
			testenv.Equal(t, stored(t, data), before, "the stored rows and objects")
			again := repairAll(t, data)
			testenv.Equal(t, findings(again), findings(found), "the findings after a second repair")
			if again.Repairs > 0 {
				t.Errorf("a second repair repaired %q", again.Repaired)
			}
		})
	}
}

// TestRepairOfAWholeInstance changes nothing.
// Invariant 114.
func TestRepairOfAWholeInstance(t *testing.T) {
	data := worked(t)
	before := stored(t, data)
	found := repairAll(t, data)
	wantWhole(t, found, "with a repair")
	if found.Repairs > 0 || len(found.NotRepaired) > 0 {
		t.Errorf("%+v", found)
	}
	testenv.Equal(t, stored(t, data), before, "the stored rows and objects")
}

// manyDamages are damages for each kind of repair, which leave nothing to list.
const manyDamages = `UPDATE shares SET refs = refs + 1 WHERE content IN (SELECT content FROM blobs WHERE account = CAST('a' AS BLOB));
	UPDATE account_sums SET blobs = blobs + 1 WHERE account = CAST('a' AS BLOB); UPDATE usage_sums SET bytes = bytes + 9;
	INSERT INTO usage_sums (owner, bytes, uploads) VALUES (CAST('other owner' AS BLOB), 3, 0); UPDATE uploads SET bytes = bytes + 1 WHERE state = 0`

// TestRepairIsInterrupted ends a repair at each of its steps: finished repairs are durable, and the
// next run repairs the rest.
// Invariant 114.
func TestRepairIsInterrupted(t *testing.T) {
	original := worked(t)
	for at := range repairSteps + 1 {
		data := copyOf(t, original)
		bySQL(manyDamages)(t, data)
		orphan(t, data, blob.OrphanAge+time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		first, err := Check(ctx, Location{Data: data}, CheckOptions{Repair: true, Progress: func(p Progress) {
			if p.Phase == PhaseRepair && int(p.Done) == at && !p.Ended {
				cancel()
			}
		}})
		cancel()
		testenv.Is(t, err, context.Canceled, "a repair that is cancelled at step %d", at)
		second := repairAll(t, data)
		wantWhole(t, second, fmt.Sprintf("after a repair that was cancelled at step %d", at))
		if all := first.Repairs + second.Repairs; all != 6 || at > 0 && first.Repairs == 0 || at < repairSteps && second.Repairs == 0 {
			t.Errorf("at step %d: repaired %q, then %q", at, first.Repaired, second.Repaired)
		}
	}
}

// orphan stores an object of this age to which nothing refers.
func orphan(t *testing.T, data string, age time.Duration) {
	t.Helper()
	e := testenv.Must(storage.OpenEndpoint(t.Context(), storage.Location{Data: data}, true, nil))(t)
	err := e.Bytes.Put(t.Context(), bytestore.NewName(time.Now().Add(-age)), strings.NewReader("four"), 4)
	testenv.OK(t, errors.Join(err, e.Close()))
}

// TestRepairDeletesOrphans deletes those that are old enough, and not so many that the metadata are
// probably wrong.
// Invariant 114.
func TestRepairDeletesOrphans(t *testing.T) {
	data := worked(t)
	objects := len(objectFiles(t, data))
	orphan(t, data, blob.OrphanAge-time.Minute)
	orphan(t, data, blob.OrphanAge+time.Minute)
	found := repairAll(t, data)
	if found.Orphans > 0 || found.Found > 0 || !slices.Equal(found.Repaired, []string{"objects to which nothing refers: 1 were deleted"}) {
		t.Errorf("%+v", found)
	}
	testenv.Equal(t, len(objectFiles(t, data)), objects+1, "the objects")

	e := testenv.Must(storage.OpenEndpoint(t.Context(), storage.Location{Data: data}, true, nil))(t)
	for range 1001 {
		testenv.OK(t, e.Bytes.Put(t.Context(), bytestore.NewName(time.Now().Add(-blob.OrphanAge-time.Hour)), strings.NewReader("four"), 4))
	}
	testenv.OK(t, e.Close())
	found = repairAll(t, data)
	if found.Orphans != 1001 || found.Repairs > 0 || len(found.NotRepaired) != 1 || !strings.Contains(found.NotRepaired[0], "1001 of ") {
		t.Errorf("of many: %d orphans, repaired %q, not repaired %q", found.Orphans, found.Repaired, found.NotRepaired)
	}
}

// TestRepairIsRefused beside a server, on a database that is not the folder's, and on an instance
// that was set back. A check alone is possible each time.
// Invariant 114.
func TestRepairIsRefused(t *testing.T) {
	data := worked(t)
	bySQL(`UPDATE shares SET refs = refs + 1 WHERE content IN (SELECT content FROM blobs WHERE account = CAST('a' AS BLOB))`)(t, data)
	s := testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t)
	_, err := Check(t.Context(), Location{Data: data}, CheckOptions{Repair: true})
	testenv.Is(t, err, datadir.ErrInUse, "beside a server")
	testenv.OK(t, errors.Join(s.Meta.RecordSetback(t.Context(), 1, "a test"), s.Close()))
	refused := func(data, says string) {
		t.Helper()
		found := repairAll(t, data)
		if found.Found != 1 || found.Repairs > 0 || len(found.NotRepaired) != 1 || !strings.Contains(found.NotRepaired[0], says) {
			t.Errorf("found %+v, repaired %q, not %q; want %q", found.Findings, found.Repaired, found.NotRepaired, says)
		}
	}
	refused(data, "set back")
	copied := filepath.Join(testenv.MemoryDir(t), "copied")
	testenv.OK(t, os.CopyFS(copied, os.DirFS(data)))
	refused(copied, "start a server on it first")
}
