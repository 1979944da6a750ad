package metastore_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"sluice/metastore"
)

// TestContentIDs creates ids at rising times, and many at the same time.
func TestContentIDs(t *testing.T) {
	start := time.UnixMilli(1_700_000_000_123)
	var last metastore.ContentID
	for i := range 1000 {
		now := start.Add(time.Duration(i) * time.Duration(i) * time.Millisecond * 1_000_003)
		id := metastore.NewContentID(now)
		if i > 1 && bytes.Compare(id[:], last[:]) <= 0 {
			t.Fatalf("the id of %v is %v, after %v", now, id, last)
		}
		last = id
		var ms int64
		for _, b := range id[:6] {
			ms = ms<<8 | int64(b)
		}
		if ms != now.UnixMilli() {
			t.Fatalf("the id of %d ms begins with %d", now.UnixMilli(), ms)
		}
		if raw, err := hex.DecodeString(id.String()); err != nil || !bytes.Equal(raw, id[:]) {
			t.Fatalf("%v is written %q", id[:], id.String())
		}
	}
	seen := map[metastore.ContentID]bool{}
	for range 10_000 {
		id := metastore.NewContentID(start)
		if seen[id] {
			t.Fatalf("%v was created twice", id)
		}
		seen[id] = true
	}
}

func TestCost(t *testing.T) {
	const most = math.MaxInt64
	for _, tc := range []struct{ count, price, want int64 }{
		{0, 1, 0}, {0, most, 0}, {3, 7, 21}, {1, most, most}, {most, 1, most}, {2, most, most},
		{most / 3, 3, most / 3 * 3}, {most/3 + 1, 3, most}, {most, most, most},
	} {
		if got := metastore.Cost(tc.count, tc.price); got != tc.want {
			t.Errorf("Cost(%d, %d) = %d, want %d", tc.count, tc.price, got, tc.want)
		}
	}
}

// TestLimitKinds checks that there is a kind for each field of Limits, and that their names differ.
func TestLimitKinds(t *testing.T) {
	var l metastore.Limits
	names := map[string]bool{}
	for i, k := range metastore.LimitKinds {
		*k.Of(&l) = int64(i + 1)
		names[k.Flag()], names[k.Column()], names[k.Member()] = true, true, true
	}
	fields := reflect.ValueOf(l)
	for i := range fields.NumField() {
		if got := fields.Field(i).Int(); got != int64(i+1) {
			t.Errorf("%s is set to %d by the kinds, want %d", fields.Type().Field(i).Name, got, i+1)
		}
	}
	if n := fields.NumField(); n != len(metastore.LimitKinds) {
		t.Errorf("%d kinds of %d limits", len(metastore.LimitKinds), n)
	}
	for _, want := range []string{
		"requests-per-second", "bytes-in-per-second", "bytes-out-per-second", "concurrent-requests", "stored-bytes", "occupied-bytes", "stored-objects", "open-uploads", "channels",
		"requests_per_second", "bytes_in_per_second", "bytes_out_per_second", "concurrent_requests", "stored_bytes", "occupied_bytes", "stored_objects", "open_uploads",
		"requestsPerSecond", "bytesInPerSecond", "bytesOutPerSecond", "concurrentRequests", "storedBytes", "occupiedBytes", "storedObjects", "openUploads",
	} {
		if !names[want] {
			t.Errorf("no limit has the name %s", want)
		}
		delete(names, want)
	}
	if len(names) > 0 {
		t.Errorf("additional names: %v", names)
	}
}

// TestOccupiedBytesDefault: a bound of the stored bytes implies one of the occupied bytes, at the level
// that sets it.
func TestOccupiedBytesDefault(t *testing.T) {
	const none = metastore.Unlimited
	type limits = metastore.Limits
	for _, c := range []struct {
		own, service limits
		want         int64
	}{
		{limits{}, limits{}, 0},
		{limits{}, metastore.NoLimits(), none},
		{limits{StoredBytes: 10}, metastore.NoLimits(), 40},
		{limits{StoredBytes: 10, OccupiedBytes: 11}, metastore.NoLimits(), 11},
		{limits{StoredBytes: 10, OccupiedBytes: none}, limits{OccupiedBytes: 5}, none},
		{limits{}, limits{StoredBytes: 10}, 40},
		{limits{}, limits{StoredBytes: 10, OccupiedBytes: 20}, 20},
		{limits{StoredBytes: 100}, limits{StoredBytes: 10, OccupiedBytes: 20}, 400},
		{limits{StoredBytes: none}, limits{StoredBytes: 10, OccupiedBytes: 20}, none},
		{limits{OccupiedBytes: 7}, limits{StoredBytes: 10}, 7},
		{limits{StoredBytes: math.MaxInt64 / 2}, limits{}, math.MaxInt64 / 4 * 4},
	} {
		if got := c.own.Resolve(c.service).OccupiedBytes; got != c.want {
			t.Errorf("%+v of a service with %+v allow %d occupied bytes, want %d", c.own, c.service, got, c.want)
		}
	}
	if got := (limits{StoredBytes: 10}).Or(limits{OccupiedBytes: 5}); got != (limits{StoredBytes: 10, OccupiedBytes: 5}) {
		t.Errorf("a change of the stored bytes results in %+v", got)
	}
}

// TestSellingLimit: a limit grows by what was collected, within the ceiling, and only for the form that is known.
func TestSellingLimit(t *testing.T) {
	const most = math.MaxInt64
	for _, c := range []struct {
		collected            int64
		known, form          string
		start, ceiling, want int64
	}{
		{0, "", "", 0, 100, 100}, // without a chain
		{0, "f", "f", 10, 100, 10},
		{0, "", "f", 10, 100, 10},
		{5, "f", "f", 10, 100, 15},
		{5, "f", "g", 10, 100, 10},
		{5, "", "g", 10, 100, 10},
		{90, "f", "f", 10, 100, 100},
		{91, "f", "f", 10, 100, 100},
		{0, "f", "f", 200, 100, 100},
		{5, "f", "g", 200, 100, 100},
		{most, "f", "f", 10, 100, 100},
		{most, "f", "f", 1, most, most},
		{most, "f", "f", most, most, most},
		{most - 10, "f", "f", 10, most, most},
		{most - 11, "f", "f", 10, most, most - 1},
	} {
		channel := metastore.Channel{Collected: c.collected, Form: c.known}
		if got := channel.SellingLimit(c.start, c.ceiling, c.form); got != c.want {
			t.Errorf("the limit of a channel with %d collected and form %q is %d for form %q from %d to %d, want %d",
				c.collected, c.known, got, c.form, c.start, c.ceiling, c.want)
		}
	}
}

func TestLimitDefaults(t *testing.T) {
	got := metastore.Limits{RequestsPerSecond: 7, StoredBytes: metastore.Unlimited}.Or(metastore.Limits{RequestsPerSecond: 1, Channels: 9})
	if want := (metastore.Limits{RequestsPerSecond: 7, StoredBytes: metastore.Unlimited, Channels: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := fmt.Sprint(got.Members()); got != "map[channels:9 requestsPerSecond:7 storedBytes:-1]" {
		t.Errorf("the members are %s", got)
	}
	if l := metastore.NoLimits(); l.Or(metastore.Limits{Channels: 1}) != l || l.RequestsPerSecond != metastore.Unlimited || l.Channels != metastore.Unlimited {
		t.Errorf("no limits are %+v", l)
	}
}
