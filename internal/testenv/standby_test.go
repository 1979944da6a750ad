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
