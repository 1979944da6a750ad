package database_test

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
	"sluice/test/testenv"
)

// TestPatience checks that only the time within calls counts, and once for concurrent calls.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := database.WithPatience(t.Context(), 10*time.Second)
		left := func(want time.Duration) func() {
			t.Helper()
			call := database.Await(ctx, time.Hour)
			testenv.Equal(t, time.Until(call.Until), want, "the patience that is left")
			return call.End
		}
		first := left(10 * time.Second)
		time.Sleep(time.Second)
		second := left(9 * time.Second)
		time.Sleep(time.Second)
		first()
		time.Sleep(time.Second)
		second()
		time.Sleep(time.Hour) // a body is being sent
		last := left(7 * time.Second)
		time.Sleep(8 * time.Second)
		last()
		left(-time.Second)()
		testenv.Equal(t, database.Waited(ctx, 10*time.Second), 11*time.Second, "the calls' wait")
		running := database.Await(ctx, time.Hour)
		time.Sleep(time.Second)
		testenv.Equal(t, database.Waited(ctx, 10*time.Second), 12*time.Second, "the calls' wait, with one that runs")
		running.End()
		testenv.Equal(t, database.Waited(t.Context(), 10*time.Second), 0, "the time that calls without patience have waited")
		if call := database.Await(t.Context(), time.Hour); time.Until(call.Until) != time.Hour {
			t.Errorf("a context without patience waits until %v", call.Until)
		}
	})
}
