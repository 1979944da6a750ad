package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/httpapi"
	"sluice/metastore"
)

// rates are the limits of whoever sends requests. 0 is what was not chosen.
type rates struct {
	RequestsPerSecond  count `placeholder:"N" help:"Requests that ${whose} may begin in a second; or unlimited."`
	BytesInPerSecond   size  `placeholder:"SIZE" help:"Bytes that ${whose} may send in a second, such as 32MiB; or unlimited."`
	BytesOutPerSecond  size  `placeholder:"SIZE" help:"Bytes that ${whose} may get in a second; or unlimited."`
	ConcurrentRequests count `placeholder:"N" help:"Requests of ${whose} that are served at once; or unlimited."`
}

// keyLimits are the limits of the keys of a group. 0 is what was not chosen.
type keyLimits struct {
	rates

	StoredBytes   size  `placeholder:"SIZE" help:"Bytes that ${whose} may have stored, with 1 KiB and its name for each object, parts of open uploads included; or unlimited."`
	StoredObjects count `placeholder:"N" help:"Blobs and parts of open uploads that ${whose} may have stored; or unlimited."`
	OpenUploads   count `placeholder:"N" help:"Uploads that ${whose} may have open; or unlimited."`
	Channels      count `placeholder:"N" help:"Payment channels that ${whose} may open in all; or unlimited."`
}

// or gives the limits with those of d where none were chosen.
func (r rates) or(d rates) rates {
	return rates{
		RequestsPerSecond:  cmp.Or(r.RequestsPerSecond, d.RequestsPerSecond),
		BytesInPerSecond:   cmp.Or(r.BytesInPerSecond, d.BytesInPerSecond),
		BytesOutPerSecond:  cmp.Or(r.BytesOutPerSecond, d.BytesOutPerSecond),
		ConcurrentRequests: cmp.Or(r.ConcurrentRequests, d.ConcurrentRequests),
	}
}

func (l keyLimits) or(d keyLimits) keyLimits {
	return keyLimits{
		rates:         l.rates.or(d.rates),
		StoredBytes:   cmp.Or(l.StoredBytes, d.StoredBytes),
		StoredObjects: cmp.Or(l.StoredObjects, d.StoredObjects),
		OpenUploads:   cmp.Or(l.OpenUploads, d.OpenUploads),
		Channels:      cmp.Or(l.Channels, d.Channels),
	}
}

// limits gives r as the limits of an address, which stores nothing of its own.
func (r rates) limits() metastore.Limits {
	return keyLimits{rates: r, StoredBytes: unlimited, StoredObjects: unlimited, OpenUploads: unlimited, Channels: unlimited}.limits()
}

func (l keyLimits) limits() metastore.Limits {
	return metastore.Limits{
		RequestsPerSecond:  int64(l.RequestsPerSecond),
		BytesInPerSecond:   int64(l.BytesInPerSecond),
		BytesOutPerSecond:  int64(l.BytesOutPerSecond),
		ConcurrentRequests: int64(l.ConcurrentRequests),
		StoredBytes:        int64(l.StoredBytes),
		StoredObjects:      int64(l.StoredObjects),
		OpenUploads:        int64(l.OpenUploads),
		Channels:           int64(l.Channels),
	}
}

// unlimited is the limit that nothing reaches, and how it is written.
const (
	unlimited     = metastore.Unlimited
	unlimitedText = "unlimited"
)

// count is a limit that is a number of things.
type count int64

// UnmarshalText reads a number from 1 on; -1 or "unlimited" is no limit.
func (c *count) UnmarshalText(text []byte) error {
	n, err := parseLimit(string(text), 1)
	if err != nil {
		return fmt.Errorf("want a number from 1 on, or %s, not %q", unlimitedText, text)
	}
	*c = count(n)
	return nil
}

// String gives the number as UnmarshalText reads it; "" for what was not chosen.
func (c count) String() string {
	switch c {
	case 0:
		return ""
	case unlimited:
		return unlimitedText
	default:
		return strconv.FormatInt(int64(c), 10)
	}
}

// size is a limit that is a number of bytes.
type size int64

// UnmarshalText reads a number from 1 on, with or without a unit such as MiB or
// MB; -1 or "unlimited" is no limit.
func (s *size) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range units {
		if before, found := strings.CutSuffix(number, u.name); found {
			number, unit = strings.TrimSuffix(before, " "), u.bytes
			break
		}
	}
	n, err := parseLimit(number, unit)
	if err != nil {
		return fmt.Errorf("want a size from 1 byte on, such as 512MiB, or %s, not %q", unlimitedText, text)
	}
	*s = size(n)
	return nil
}

// String gives the size as UnmarshalText reads it, in the greatest unit of 1024
// that it is a multiple of; "" for what was not chosen.
func (s size) String() string {
	if s > 0 {
		for _, u := range slices.Backward(units[:binaryUnits]) {
			if int64(s)%u.bytes == 0 {
				return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
			}
		}
	}
	return count(s).String()
}

// binaryUnits is how many of the units are powers of 1024.
const binaryUnits = 5

// units are what sizes may be given in.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15},
}

var errLimit = errors.New("not a limit")

// parseLimit reads a number of units.
func parseLimit(text string, unit int64) (int64, error) {
	if unit == 1 && (text == unlimitedText || text == strconv.Itoa(unlimited)) {
		return unlimited, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return 0, errLimit
	}
	return n * unit, nil
}

// mostConnections is how many connections are served at once where the limit of
// open files has room for more.
const mostConnections = 20_000

// spareFiles are left for the database, the logs, and what else has no bound of
// its own.
const spareFiles = 256

// newConnections returns the caps of the connections.
func (c *config) newConnections() (*httpapi.Connections, error) {
	most, err := c.maxConnections()
	if err != nil {
		return nil, err
	}
	connections := httpapi.NewConnections(most)
	connections.AnyOrigin = c.Profile == hosted
	connections.PerAddress = c.connectionsPerAddress(most)
	connections.Exempt, err = c.trustedProxies()
	return connections, err
}

// connectionsPerAddress returns how many connections one address may have open,
// 0 for any number. By default no address can have more than a quarter of those
// of a hosted service, and this machine has all of a local one.
func (c *config) connectionsPerAddress(most int) int {
	switch {
	case c.MaxConnectionsPerAddress == unlimited:
		return 0
	case c.MaxConnectionsPerAddress > 0:
		return int(min(int64(c.MaxConnectionsPerAddress), math.MaxInt32))
	case c.Profile == hosted:
		return max(most/4, 1)
	default:
		return 0
	}
}

// maxConnections gives how many connections are served at once.
func (c *config) maxConnections() (int, error) {
	if c.MaxConnections > 0 {
		return c.MaxConnections, nil
	}
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 0, fmt.Errorf("asking for the limit of open files: %w", err)
	}
	return connectionsFor(files.Cur, c.MaxRequests), nil
}

// connectionsFor gives how many connections fit into a limit of open files: each
// takes one, and a request at work another, for what it reads or writes; to one
// in sixteen another comes that is being refused.
func connectionsFor(files uint64, requests int) int {
	room := int(min(files, 1<<20)) - spareFiles
	room = room * 16 / 17
	return min(max(room/2, room-requests, 16), mostConnections)
}
