package node

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/task"
)

// TestTaskLines checks that each run is in a line: failures immediately, runs that did something at
// most once a minute for each task, and runs that had nothing to do with the level debug alone.
func TestTaskLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := newTaskLines(slog.New(slog.NewTextHandler(&out, nil)))
		check := func(want ...string) {
			t.Helper()
			l.mu.Lock() // timers write under it
			defer l.mu.Unlock()
			got := strings.Split(strings.TrimSuffix(regexp.MustCompile(`time=\S+ level=`).ReplaceAllString(out.String(), ""), "\n"), "\n")
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("the log is %q, want %q", got, want)
			}
			out.Reset()
		}
		free := task.Run{Task: task.FreeGarbage, Took: 1500 * time.Millisecond, Count: 3}
		l.add(free)
		l.add(free)
		l.add(task.Run{Task: task.Purge, Count: 1})
		l.add(free)
		l.add(task.Run{Task: task.Settle, Took: time.Second, Count: 5, Err: errors.New("refused")})
		check(`ERROR msg="background task failed" task=settle runs=1 handled=5 took_seconds=1 error=refused`,
			`INFO msg="background task ended" task=free_garbage runs=1 handled=3 took_seconds=1.5`,
			`INFO msg="background task ended" task=purge runs=1 handled=1 took_seconds=0`)
		time.Sleep(linePause)
		synctest.Wait()
		check(`INFO msg="background task ended" task=free_garbage runs=2 handled=6 took_seconds=3`)
		time.Sleep(linePause)
		synctest.Wait()
		check("")
		l.add(task.Run{Task: task.Sweep})
		l.add(task.Run{Task: task.Purge})
		l.add(task.Run{Task: task.Census, Count: 7})
		check(`INFO msg="background task ended" task=sweep runs=1 handled=0 took_seconds=0`)
		l.add(free)
		l.add(free)
		l.flush()
		check(`INFO msg="background task ended" task=free_garbage runs=1 handled=3 took_seconds=1.5`,
			`INFO msg="background task ended" task=free_garbage runs=1 handled=3 took_seconds=1.5`)
		time.Sleep(linePause)
		synctest.Wait()
		check("")
		l.log = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		l.add(task.Run{Task: task.Settle})
		check(`DEBUG msg="background task ended" task=settle runs=1 handled=0 took_seconds=0`)
	})
}
