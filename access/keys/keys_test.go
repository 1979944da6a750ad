package keys_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"sluice/access/keys"
	"sluice/test/testenv"
)

// TestLimitKinds checks that there is a kind for each field of Limits, and that their names differ.
func TestLimitKinds(t *testing.T) {
	var l keys.Limits
	names := map[string]bool{}
	for i, k := range keys.LimitKinds {
		*k.Of(&l) = int64(i + 1)
		names[k.Flag()], names[k.Column()], names[k.Member()] = true, true, true
	}
	fields := reflect.ValueOf(l)
	for i := range fields.NumField() {
		testenv.Equal(t, fields.Field(i).Int(), int64(i+1), "%s as set by the kinds", fields.Type().Field(i).Name)
	}
	testenv.Equal(t, fields.NumField(), len(keys.LimitKinds), "limits")
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

// TestOccupiedBytesDefault: a bound on stored bytes implies one on occupied bytes, at the level
// that sets it.
// Invariant 41.
func TestOccupiedBytesDefault(t *testing.T) {
	const none = keys.Unlimited
	type limits = keys.Limits
	for _, c := range []struct {
		own, service limits
		want         int64
	}{
		{limits{}, limits{}, 0},
		{limits{}, keys.NoLimits(), none},
		{limits{StoredBytes: 10}, keys.NoLimits(), 40},
		{limits{StoredBytes: 10, OccupiedBytes: 11}, keys.NoLimits(), 11},
		{limits{StoredBytes: 10, OccupiedBytes: none}, limits{OccupiedBytes: 5}, none},
		{limits{}, limits{StoredBytes: 10}, 40},
		{limits{}, limits{StoredBytes: 10, OccupiedBytes: 20}, 20},
		{limits{StoredBytes: 100}, limits{StoredBytes: 10, OccupiedBytes: 20}, 400},
		{limits{StoredBytes: none}, limits{StoredBytes: 10, OccupiedBytes: 20}, none},
		{limits{OccupiedBytes: 7}, limits{StoredBytes: 10}, 7},
		{limits{StoredBytes: math.MaxInt64 / 2}, limits{}, math.MaxInt64 / 4 * 4},
	} {
		testenv.Equal(t, c.own.Resolve(c.service).OccupiedBytes, c.want, "occupied bytes of %+v in a service with %+v", c.own, c.service)
	}
	testenv.Equal(t, (limits{StoredBytes: 10}).Or(limits{OccupiedBytes: 5}), (limits{StoredBytes: 10, OccupiedBytes: 5}), "limits whose stored bytes were changed")
}

func TestLimitDefaults(t *testing.T) {
	got := keys.Limits{RequestsPerSecond: 7, StoredBytes: keys.Unlimited}.Or(keys.Limits{RequestsPerSecond: 1, Channels: 9})
	if want := (keys.Limits{RequestsPerSecond: 7, StoredBytes: keys.Unlimited, Channels: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	testenv.Equal(t, fmt.Sprint(got.Members()), "map[channels:9 requestsPerSecond:7 storedBytes:-1]", "the members")
	if l := keys.NoLimits(); l.Or(keys.Limits{Channels: 1}) != l || l.RequestsPerSecond != keys.Unlimited || l.Channels != keys.Unlimited {
		t.Errorf("no limits are %+v", l)
	}
}
