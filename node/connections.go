package node

import (
	"math"

	"sluice/access/keys"
	"sluice/httpapi"
	"sluice/internal/connlimit"
)

const (
	// maxConnections is the greatest number of connections that are served concurrently.
	maxConnections = 20_000
	// reservedFiles is the number of open files left for the database, the logs,
	// and everything else without a limit of its own.
	reservedFiles = 256
	// maxKeptFiles is the greatest number of files of objects that stay open for
	// later reads.
	maxKeptFiles = 1024
)

// newConnections returns the limits of connections: as many as the process may have open files for.
func (c *Config) newConnections() (*connlimit.Limiter, error) {
	files, err := openFileLimit()
	if err != nil {
		return nil, err
	}
	limit := connectionsFor(files, c.MaxRequests)
	connections := connlimit.New(limit, httpapi.ConnectionRefusal(c.Profile == Hosted))
	connections.PerAddress = c.connectionsPerAddress(limit)
	connections.Exempt, err = parseProxies("--trusted-proxies", c.TrustedProxies)
	return connections, err
}

// connectionsPerAddress returns how many connections one address may have open, 0
// for any number. By default an address can have a quarter of a hosted service's
// connections, and all of a local one.
func (c *Config) connectionsPerAddress(limit int) int {
	switch {
	case c.MaxConnectionsPerAddress == keys.Unlimited:
		return 0
	case c.MaxConnectionsPerAddress > 0:
		return int(min(c.MaxConnectionsPerAddress, math.MaxInt32))
	case c.Profile == Hosted:
		return max(limit/4, 1)
	default:
		return 0
	}
}

// keptFilesFor returns how many files of objects a limit of open files allows to stay
// open for later reads.
func keptFilesFor(files uint64) int { return int(min(files/16, maxKeptFiles)) }

// connectionsFor returns how many connections a limit of open files allows. A connection needs one
// file, a running request a second one, to read or write an object, and one in sixteen connections
// is allowed for those being refused.
func connectionsFor(files uint64, requests int) int {
	available := int(min(files, 1<<20)) - reservedFiles - keptFilesFor(files)
	available = available * 16 / 17
	return min(max(available/2, available-requests, 16), maxConnections)
}
