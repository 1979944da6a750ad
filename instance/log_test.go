package instance

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/datadir"
	"sluice/storage"
	"sluice/test/testenv"
)

// TestDamagedDatabaseLog kills an instance's writer, and flips a bit in the log that it leaves. A
// check, a recovery and a start report it and change nothing. Without the log the instance has been
// set back, until it is recovered.
// Invariant 111.
func TestDamagedDatabaseLog(t *testing.T) {
	data := newSource(t)
	file := filepath.Join(data, datadir.Database)
	db := testenv.Must(sql.Open("sqlite", "file:"+file+"?_pragma=wal_autocheckpoint(0)"))(t)
	db.SetMaxOpenConns(1)
	for i := range 5 {
		testenv.Must(db.ExecContext(t.Context(), fmt.Sprintf("PRAGMA user_version = %d", i+1)))(t)
	}
	log := testenv.Must(os.ReadFile(file + "-wal"))(t)
	content := testenv.Must(os.ReadFile(file))(t)
	testenv.OK(t, db.Close())
	log[len(log)-3*4120+100] ^= 1
	testenv.OK(t, errors.Join(os.WriteFile(file, content, 0o600), os.WriteFile(file+"-wal", log, 0o600)))

	const says = "-wal is damaged at byte 8272, with 2 whole commits behind that"
	for range 2 {
		found := checkAll(t, data)
		if found.Found != 1 || found.Findings[0].Kind != DamagedPages || !strings.Contains(found.Findings[0].Text, says) {
			t.Errorf("a check: %+v", found)
		}
		_, err := storage.Open(t.Context(), Location{Data: data}, storage.Options{})
		if !errors.Is(err, storage.ErrDamaged) || !strings.Contains(err.Error(), says) {
			t.Errorf("a start: %v", err)
		}
		_, _, err = Recover(t.Context(), Location{Data: data}, RecoverOptions{})
		testenv.Is(t, err, storage.ErrDamaged, "a recovery")
		if !bytes.Equal(testenv.Must(os.ReadFile(file+"-wal"))(t), log) || !bytes.Equal(testenv.Must(os.ReadFile(file))(t), content) {
			t.Fatal("the database or its log was changed")
		}
	}

	testenv.OK(t, os.Rename(file+"-wal", file+"-wal.kept"))
	s := testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t)
	if why := s.History.Err(); why == nil || !strings.Contains(why.Error(), "may lack changes") {
		t.Errorf("without the log: %v", why)
	}
	checkSource(t, s.Meta, s.Bytes)
	testenv.OK(t, s.Close())
	testenv.Must(recovered(t, data))(t)
	s = testenv.Must(storage.Open(t.Context(), Location{Data: data}, storage.Options{}))(t)
	testenv.OK(t, errors.Join(s.History.Err(), s.Close()))
}

// recovered recovers an instance, and returns the Setback from before.
func recovered(t *testing.T, data string) (found Setback, err error) {
	t.Helper()
	_, _, err = Recover(t.Context(), Location{Data: data}, RecoverOptions{Confirm: func(f Setback) error { found = f; return nil }})
	return found, err
}
