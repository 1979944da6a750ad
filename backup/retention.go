package backup

import (
	"errors"
	"time"
)

// Retention is the rule for keeping backups: the newest Last, and the newest one in each of so many
// hours, days, weeks, months and years in which there is one. Weeks begin on Mondays, and all times
// are UTC.
type Retention struct{ Last, Hourly, Daily, Weekly, Monthly, Yearly int }

// ErrKeepsNothing is returned by Prune for a Retention that keeps no backup.
var ErrKeepsNothing = errors.New("backup: such a retention keeps nothing")

// keeps returns which backups with these times, the oldest first, are kept.
func (k Retention) keeps(times []time.Time) []bool {
	keep := make([]bool, len(times))
	for i := range times {
		keep[i] = len(times)-i <= k.Last
	}
	for _, rule := range []struct {
		count  int
		period func(time.Time) time.Time
	}{
		{k.Hourly, func(t time.Time) time.Time { return t.Truncate(time.Hour) }},
		{k.Daily, func(t time.Time) time.Time { return date(t, t.Day()) }},
		{k.Weekly, func(t time.Time) time.Time { return date(t, t.Day()-(int(t.Weekday())+6)%7) }},
		{k.Monthly, func(t time.Time) time.Time { return date(t, 1) }},
		{k.Yearly, func(t time.Time) time.Time { return time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC) }},
	} {
		left := rule.count
		var last time.Time
		for i := len(times) - 1; i >= 0 && left > 0; i-- {
			if period := rule.period(times[i].UTC()); !period.Equal(last) {
				keep[i], last = true, period
				left--
			}
		}
	}
	return keep
}

// date returns the beginning of a day in the month of t.
func date(t time.Time, day int) time.Time {
	return time.Date(t.Year(), t.Month(), day, 0, 0, 0, 0, time.UTC)
}
