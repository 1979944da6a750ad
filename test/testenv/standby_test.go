package testenv

import (
	"errors"
	"testing"
)

func TestStandby(t *testing.T) {
	primary := StartPostgres(t)
	standby := StartStandby(t, primary)
	if got := query(t, standby.DSN(), "SELECT pg_is_in_recovery()::text"); got != "true" {
		t.Errorf("the standby is in recovery: %s", got)
	}
	// With synchronous replication the standby has every acknowledged commit.
	OK(t, errors.Join(
		primary.Exec("ALTER SYSTEM SET synchronous_standby_names = '*'"),
		primary.StopFast(), primary.Start(),
		primary.Exec("CREATE TABLE kept (n BIGINT)"),
		primary.Stop(), standby.Promote(),
	))
	if got := query(t, standby.DSN(), "SELECT COUNT(*)::text FROM kept"); got != "0" {
		t.Errorf("%s rows in a table without any", got)
	}
}

// TestFollow: a standby follows another primary, and a former primary becomes its standby.
func TestFollow(t *testing.T) {
	first := StartPostgres(t)
	second, third := StartStandby(t, first), StartStandby(t, first)
	OK(t, errors.Join(first.Exec("CREATE TABLE kept (n BIGINT)"), first.AwaitStandby(), first.Stop(), second.Promote(), third.Follow(second), first.Rejoin(second)))
	OK(t, second.Exec("INSERT INTO kept VALUES (1)"))
	OK(t, second.AwaitStandbys(2))
	for _, s := range []*PostgresServer{first, third} {
		if got := query(t, s.DSN(), "SELECT COUNT(*)::text || pg_is_in_recovery() FROM kept"); got != "1true" {
			t.Errorf("a standby has %s", got)
		}
		if position, err := s.Received(); position == 0 || err != nil {
			t.Errorf("a standby has received %d, %v", position, err)
		}
	}
}

// TestArchive: a server is restored to a mark.
func TestArchive(t *testing.T) {
	s := StartPostgres(t)
	OK(t, s.Exec("CREATE TABLE kept (n BIGINT)"))
	archive, err := s.Archive()
	OK(t, err)
	OK(t, errors.Join(s.Exec("INSERT INTO kept VALUES (1)"), archive.Mark("here"), s.Exec("INSERT INTO kept VALUES (2)"), archive.Restore("here")))
	if got := query(t, s.DSN(), "SELECT SUM(n)::text FROM kept"); got != "1" {
		t.Errorf("the restored sum is %s", got)
	}
}
