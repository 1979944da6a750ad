package units

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day  = 24 * time.Hour
	week = 7 * day
)

var errDuration = errors.New("want a duration, such as 30d, 12h or 1h30m")

// ParseDuration parses a duration as time.ParseDuration does, with d for days of 24 hours and w for
// weeks before the other units, such as 30d or 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(text, "-")
	total := time.Duration(0)
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"w", week}, {"d", day}} {
		number, after, found := strings.Cut(rest, unit.name)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 63)
		if err != nil || n > uint64(math.MaxInt64/unit.size) || total > math.MaxInt64-time.Duration(n)*unit.size {
			return 0, errDuration
		}
		total += time.Duration(n) * unit.size
		rest = after
		if rest == "" {
			return sign(total, negative), nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || total > 0 && (d < 0 || rest[0] == '+') || total > math.MaxInt64-d || negative && strings.HasPrefix(rest, "-") {
		return 0, errDuration
	}
	return sign(total+d, negative), nil
}

// FormatDuration returns a duration as ParseDuration parses it, in days if it is a number of them.
func FormatDuration(d time.Duration) string {
	text := d.String()
	switch {
	case d == 0:
	case d%day == 0:
		text = fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		text = strings.TrimSuffix(text, "0m0s")
	case d%time.Minute == 0:
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

func sign(d time.Duration, negative bool) time.Duration {
	if negative {
		return -d
	}
	return d
}

// When is a time, or a duration from a time that is known later. The zero value is never.
type When struct {
	at    time.Time
	after time.Duration
}

// ParseWhen parses a time in the future: a time of RFC 3339, a date (its first moment in UTC), Unix
// seconds, a duration from now as of ParseDuration, or "in" and a number of seconds, minutes,
// hours, days or weeks.
func ParseWhen(text string) (When, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return instant(text, at)
		}
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 {
		return unixSeconds(text, seconds)
	}
	after, err := ParseDuration(text)
	if err != nil {
		after, err = parseIn(text)
	}
	switch {
	case err != nil:
		return When{}, fmt.Errorf("want a duration from now, such as 30d or 720h, or a time, such as 2030-01-31 or 2030-01-31T12:00:00Z, not %q", text)
	case after <= 0:
		return When{}, fmt.Errorf("%s is in the past", text)
	}
	return When{after: after}, nil
}

// maxUnix is the last second that RFC 3339 can write: its years end with 9999.
const maxUnix = 253402300799

// instant returns a time, unless it is the zero time, which would mean never, or its year in UTC is
// above 9999.
func instant(text string, at time.Time) (When, error) {
	switch {
	case at.IsZero():
		return When{}, fmt.Errorf("%s is in the past", text)
	case at.Unix() > maxUnix:
		return When{}, fmt.Errorf("%s is after the year 9999 in UTC", text)
	}
	return When{at: at}, nil
}

// unixSeconds returns a time in Unix seconds. Small numbers are errors: a unit was forgotten.
func unixSeconds(text string, seconds int64) (When, error) {
	switch {
	case seconds < int64(week/time.Second)*52:
		return When{}, fmt.Errorf("%s has no unit: want a duration, such as %sd for days, or Unix seconds", text, text)
	case seconds > maxUnix:
		return When{}, fmt.Errorf("%s is after the year 9999: want Unix seconds, not milliseconds or microseconds", text)
	}
	return When{at: time.Unix(seconds, 0).UTC()}, nil
}

// parseIn parses "in 7 days".
func parseIn(text string) (time.Duration, error) {
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != "in" {
		return 0, errDuration
	}
	number := words[1]
	if number == "a" || number == "an" || number == "one" {
		number = "1"
	}
	unit := map[string]string{"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}[strings.TrimSuffix(words[2], "s")]
	if _, err := strconv.ParseUint(number, 10, 63); err != nil || unit == "" {
		return 0, errDuration
	}
	return ParseDuration(number + unit)
}

// From returns the time if the current time is now. It returns an error if the time is not in the
// future, and the zero time for never.
func (w When) From(now time.Time) (time.Time, error) {
	switch {
	case w.after != 0:
		return now.Add(w.after), nil
	case !w.at.IsZero() && !w.at.After(now):
		return time.Time{}, fmt.Errorf("%s is in the past", w.at.Format(time.RFC3339))
	default:
		return w.at, nil
	}
}

// UnmarshalText parses a time as ParseWhen does.
func (w *When) UnmarshalText(text []byte) (err error) {
	*w, err = ParseWhen(string(text))
	return err
}
