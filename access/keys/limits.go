package keys

import (
	"math"
	"strings"

	"sluice/metastore"
)

// Limits bound the service's use by a group's keys together, or by the callers without a key at one
// address together. The quotas (StoredBytes to Channels) hold for all nodes together, the other
// limits on each node. 0 means the service's default, and Unlimited means no limit. Everything that
// handles all limits iterates over LimitKinds.
type Limits struct {
	RequestsPerSecond  int64
	BytesInPerSecond   int64 // bytes of request bodies
	BytesOutPerSecond  int64 // bytes of response bodies
	ConcurrentRequests int64
	StoredBytes        int64 // in blobs and in open uploads' parts; see metastore.Used.Stored
	OccupiedBytes      int64 // the same, and retained bytes; see metastore.Used.Occupied and Resolve
	StoredObjects      int64 // blobs and open uploads' parts
	OpenUploads        int64
	Channels           int64 // ever opened
}

// Unlimited is the value of a limit that does not apply.
const Unlimited = -1

// LimitKinds are the kinds of limits, in the order in which they are shown.
var LimitKinds = [...]LimitKind{
	{Name: "requests per second", Help: "requests per second",
		Of: func(l *Limits) *int64 { return &l.RequestsPerSecond }},
	{Name: "bytes in per second", Help: "bytes of request bodies per second, such as 32MiB,", Bytes: true,
		Of: func(l *Limits) *int64 { return &l.BytesInPerSecond }},
	{Name: "bytes out per second", Help: "bytes of response bodies per second", Bytes: true,
		Of: func(l *Limits) *int64 { return &l.BytesOutPerSecond }},
	{Name: "concurrent requests", Help: "concurrent requests",
		Of: func(l *Limits) *int64 { return &l.ConcurrentRequests }},
	{Name: "stored bytes", Help: "stored bytes, counting the parts of open uploads and, for each object, its name and 1 KiB,", Bytes: true,
		Of:   func(l *Limits) *int64 { return &l.StoredBytes },
		Used: metastore.Used.Stored},
	{Name: "occupied bytes", Help: "stored bytes and, in addition, bytes that are retained for a time: of deleted and replaced contents, outcomes of uploads and recorded requests (default: 4 times the stored bytes),", Bytes: true,
		Of:   func(l *Limits) *int64 { return &l.OccupiedBytes },
		Used: metastore.Used.Occupied},
	{Name: "stored objects", Help: "stored blobs and parts of open uploads",
		Of:   func(l *Limits) *int64 { return &l.StoredObjects },
		Used: func(u metastore.Used) int64 { return u.Objects }},
	{Name: "open uploads", Help: "open uploads",
		Of:   func(l *Limits) *int64 { return &l.OpenUploads },
		Used: func(u metastore.Used) int64 { return u.Uploads }},
	{Name: "channels", Help: "payment channels ever opened",
		Of:   func(l *Limits) *int64 { return &l.Channels },
		Used: func(u metastore.Used) int64 { return u.Channels }},
}

// LimitKind describes one of Limits.
type LimitKind struct {
	// Name is the name in words of lower case. Flag, Member and Column make their names from it.
	Name string
	// Help names the limited things, for the help text "Maximum ... for the keys of a group."
	Help string
	// Bytes reports whether it is a number of bytes.
	Bytes bool
	// Of returns the limit's field.
	Of func(*Limits) *int64
	// Used returns how much of the limit is used. It is nil unless the limit is a quota.
	Used func(metastore.Used) int64
}

// Flag returns the limit's flag, such as "stored-bytes".
func (k LimitKind) Flag() string { return strings.ReplaceAll(k.Name, " ", "-") }

// Column returns the limit's database column, such as "stored_bytes".
func (k LimitKind) Column() string { return strings.ReplaceAll(k.Name, " ", "_") }

// Member returns the limit's JSON member, such as "storedBytes".
func (k LimitKind) Member() string {
	words := strings.Split(k.Name, " ")
	for i, w := range words[1:] {
		words[1+i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// Quota reports whether the limit is a quota: it bounds stored things.
func (k LimitKind) Quota() bool { return k.Used != nil }

// occupiedShare is the default of OccupiedBytes, as a multiple of StoredBytes.
const occupiedShare = 4

// Resolve returns the limits in force: l, with defaults' limit wherever l's is 0. But first, if l
// or defaults has StoredBytes and no OccupiedBytes, its OccupiedBytes becomes four times its
// StoredBytes, or Unlimited if those are: a quota on stored bytes implies one on garbage.
//
// For example, with StoredBytes 10 in l and OccupiedBytes 5 in defaults, 40 bytes may be occupied.
func (l Limits) Resolve(defaults Limits) Limits {
	return l.withOccupied().Or(defaults.withOccupied())
}

// Or returns l, with defaults' limit wherever l's is 0.
func (l Limits) Or(defaults Limits) Limits {
	for _, k := range LimitKinds {
		if limit := k.Of(&l); *limit == 0 {
			*limit = *k.Of(&defaults)
		}
	}
	return l
}

func (l Limits) withOccupied() Limits {
	if l.OccupiedBytes == 0 {
		l.OccupiedBytes = l.StoredBytes
		if l.StoredBytes > 0 {
			l.OccupiedBytes = min(l.StoredBytes, math.MaxInt64/occupiedShare) * occupiedShare
		}
	}
	return l
}

// NoLimits returns Limits that are all Unlimited.
func NoLimits() Limits {
	var l Limits
	for _, k := range LimitKinds {
		*k.Of(&l) = Unlimited
	}
	return l
}

// Members returns the limits that are not 0, by their JSON members.
func (l Limits) Members() map[string]int64 {
	members := map[string]int64{}
	for _, k := range LimitKinds {
		if limit := *k.Of(&l); limit != 0 {
			members[k.Member()] = limit
		}
	}
	return members
}
