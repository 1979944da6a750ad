package database_test

import (
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
)

// TestPatience checks that only the time within calls counts, and once for concurrent calls.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := database.WithPatience(t.Context(), 10*time.Second)
		left := func(want time.Duration) func() {
			t.Helper()
			call := database.Await(ctx, time.Hour)
			if got := time.Until(call.Until); got != want {
				t.Errorf("%v are left, want %v", got, want)
			}
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
		if got := database.Waited(ctx, 10*time.Second); got != 11*time.Second {
			t.Errorf("the calls have waited for %v, want 11 s", got)
		}
		running := database.Await(ctx, time.Hour)
		time.Sleep(time.Second)
		if got := database.Waited(ctx, 10*time.Second); got != 12*time.Second {
			t.Errorf("with one that runs, the calls have waited for %v, want 12 s", got)
		}
		running.End()
		if got := database.Waited(t.Context(), 10*time.Second); got != 0 {
			t.Errorf("calls without patience have waited for %v", got)
		}
		if call := database.Await(t.Context(), time.Hour); time.Until(call.Until) != time.Hour {
			t.Errorf("a context without patience waits until %v", call.Until)
		}
	})
}
