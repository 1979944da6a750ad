package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/database"
	"sluice/database/whole"
	"sluice/exchange"
	"sluice/httpapi"
	"sluice/internal/metrics"
	"sluice/storage"
)

// clockOnly is a store with nothing but a clock.
type clockOnly struct {
	whole.Database
	err error
}

func (c *clockOnly) Now() time.Time     { return time.Now().Add(-3 * time.Second) }
func (c *clockOnly) ClockErr() error    { return c.err }
func (c *clockOnly) DeletionErr() error { return c.err }

// TestReasonsWhyANodeIsNotReady checks the metrics of readiness: each reason by itself, the clock,
// and stores that do not answer.
func TestReasonsWhyANodeIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &clockOnly{}
		var full error
		hang := make(chan struct{})
		close(hang)
		n := &Node{tasks: newTaskLog(nil, newTaskLines(slog.New(slog.DiscardHandler))), stores: &storage.Stores{Meta: clock, Conditions: []storage.Condition{
			{Name: storage.MetadataWritable, Check: func(context.Context) error { <-hang; return nil }},
			{Name: storage.SpaceLeft, Check: func(context.Context) error { return full }},
		}}}
		var err error
		if n.api, err = httpapi.New(httpapi.Config{Config: exchange.Config{Ready: n.ready, Log: slog.New(slog.DiscardHandler)}}); err != nil {
			t.Fatal(err)
		}
		set := metrics.NewSet()
		registerReadiness(set, n)
		check := func(what string, lines ...string) {
			t.Helper()
			time.Sleep(2 * time.Second) // the last check is too old to be reused
			wantLines(t, set, what, true, append(lines, "sluice_clock_offset_seconds 3", "sluice_leader 0")...)
			if reasons := strings.Count(exposed(set), "\nsluice_not_ready{"); reasons != len(conditionNames) {
				t.Errorf("%s: %d reasons, want %d", what, reasons, len(conditionNames))
			}
		}
		check("ready", "sluice_ready 1", `sluice_not_ready{reason="space"} 0`, "sluice_deletions_paused 0")
		full = errors.New("full")
		check("full", "sluice_ready 0", `sluice_not_ready{reason="space"} 1`, `sluice_not_ready{reason="clock"} 0`)
		clock.err = database.ErrClock
		check("full, and the clock unknown", "sluice_ready 0", `sluice_not_ready{reason="space"} 1`, `sluice_not_ready{reason="clock"} 1`, "sluice_deletions_paused 1")
		full, clock.err, hang = nil, nil, make(chan struct{})
		check("no answer", "sluice_ready 0", `sluice_not_ready{reason="no_answer"} 1`, `sluice_not_ready{reason="space"} 0`)
		close(hang)
		check("ready again", "sluice_ready 1", `sluice_not_ready{reason="no_answer"} 0`)
		n.api.Drain()
		check("draining", "sluice_ready 0", `sluice_not_ready{reason="draining"} 1`)
	})
}
