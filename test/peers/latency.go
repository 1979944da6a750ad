//go:build linux

package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"

	"sluice/bytestore"
	"sluice/internal/datadir"
	"sluice/metastore"
	"sluice/storage"
)

func latencyGroup() *group {
	return &group{name: "latency", title: "Latency under mixed load", prepare: prepareLatency, notes: []string{
		fmt.Sprintf("`sluice bench mixed` sends %d operations a second over %d connections, in an open loop: latencies count from the time at which an operation was due. "+
			"Their weights are %s; a PUT replaces one of 1,000 blobs of 4 KiB, and so makes garbage.", mixedRate, mixedConnections, mixedWeights),
		fmt.Sprintf("Both sides are sluice over equal data. The one purges expired blobs and compares its %d objects with the metadata all the time (`node.Tuning`); the other does neither.", sweptObjects),
	}}
}

// The mixed load. Its rate is far below a server's maximum on two cores with the generator.
const (
	mixedRate        = 2000
	mixedConnections = 64
	mixedWeights     = "get=60,put=25,use=15"
	mixedTime        = 5 // times the time of other measurements, because a quantile needs many operations
)

// The background tasks' work.
const (
	expiredBlobs = 400_000
	sweptObjects = 50_000
)

func prepareLatency(ctx context.Context, e *environment) ([]*row, error) {
	if err := e.requireSpace(2); err != nil {
		return nil, err
	}
	load := map[string]*mixedLoad{}
	for name, every := range map[string]time.Duration{active: time.Second, idle: 24 * time.Hour} {
		if err := e.fillForTasks(ctx, name); err != nil {
			return nil, err
		}
		s, err := e.startSluiceWith(ctx, name, []string{fmt.Sprintf(`SLUICE_TEST_TUNING={"PurgeEvery":%d,"SweepEvery":%[1]d}`, every)})
		if err != nil {
			return nil, err
		}
		load[name] = &mixedLoad{server: s, taken: map[string]bool{}}
	}
	var rows []*row
	for _, kind := range []string{"get", "put", "use"} {
		for _, quantile := range []string{"p50", "p99", "p999"} {
			one := func(name string) side {
				return side{"sluice, tasks " + name, func(ctx context.Context, d time.Duration) (measurement, error) {
					return load[name].run(ctx, e, d, kind, quantile)
				}}
			}
			rows = append(rows, &row{name: fmt.Sprintf("%s, %s", strings.ToUpper(kind), strings.Replace(quantile, "p999", "p99.9", 1)), unit: "us",
				sluice: one(active), peers: []peer{{side: one(idle), atMost: true}}})
		}
	}
	return rows, nil
}

// The sides, by their background tasks' state.
const (
	active = "active"
	idle   = "idle"
)

// mixedLoad is the mixed load of one server. One measurement serves several rows.
type mixedLoad struct {
	server *sluiceServer
	last   benchResult
	cpu    float64
	taken  map[string]bool // latencies in the last measurement that a row has
}

// benchResult is the output of `sluice bench --json`.
type benchResult struct {
	Operations []struct {
		Kind                 string
		Done, Failed, Unsent int64
		LatencyMicroseconds  map[string]float64
	}
}

// run returns a quantile for a kind's latencies. It measures unless the last measurement has one
// that was not taken.
func (m *mixedLoad) run(ctx context.Context, e *environment, d time.Duration, kind, quantile string) (measurement, error) {
	wanted := kind + " " + quantile
	if len(m.last.Operations) == 0 || m.taken[wanted] {
		clear(m.taken)
		m.last = benchResult{}
		var err error
		m.cpu, err = m.server.charged(func() (float64, error) {
			m.last, err = e.benchMixed(ctx, m.server.url, mixedTime*d)
			return float64(mixedRate) * (mixedTime * d).Seconds(), err
		})
		if err != nil {
			return measurement{}, err
		}
	}
	m.taken[wanted] = true
	for _, o := range m.last.Operations {
		if o.Kind != kind {
			continue
		}
		if o.Failed > 0 || o.Unsent > o.Done/100 {
			return measurement{}, fmt.Errorf("%d operations failed and %d were not sent of %d", o.Failed, o.Unsent, o.Done)
		}
		return measurement{o.LatencyMicroseconds[quantile], m.cpu}, nil
	}
	return measurement{}, fmt.Errorf("there was no operation %s", kind)
}

// benchMixed sends the load by the command of users.
func (e *environment) benchMixed(ctx context.Context, url string, d time.Duration) (r benchResult, err error) {
	command := exec.CommandContext(ctx, e.sluice, "bench", "mixed", "0x1/", "--url", url, "--json", "--rate", strconv.Itoa(mixedRate),
		"--connections", strconv.Itoa(mixedConnections), "--mix", mixedWeights, "--duration", d.String())
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return r, fmt.Errorf("sluice bench: %w", err)
	}
	return r, json.Unmarshal(out, &r)
}

// fillForTasks makes a data folder with blobs that a purge removes, and with objects that are old
// enough for a sweep and are in use.
func (e *environment) fillForTasks(ctx context.Context, name string) (err error) {
	l := storage.Location{Data: filepath.Join(e.work, name)}
	stores, err := storage.Open(ctx, l, storage.Options{})
	if err != nil {
		return err
	}
	_, err = stores.Meta.CommitBlob(ctx, metastore.Blob{Account: "0x2", Name: firstName, Content: metastore.ContentID{1}, ContentType: "text/plain"}, nil, nil)
	if err := errors.Join(err, stores.Close()); err != nil {
		return err
	}
	opened, err := new(sqlite.Driver).Open(filepath.Join(l.Data, datadir.Database))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	c := opened.(sqliteConn)
	columns, err := columnsOfBlobs(ctx, c)
	if err != nil {
		return err
	}
	long := time.Now().Add(-10 * metastore.ExpiredBlobGrace)
	expired := copyRows(columns, map[string]string{"name_head": "CAST(printf('%07d', i) AS BLOB)", "content": "randomblob(16)", "expires": strconv.FormatInt(long.UnixMicro(), 10)},
		sqliteSeries(expiredBlobs))
	if _, err := c.ExecContext(ctx, expired, nil); err != nil {
		return err
	}
	return e.fillObjects(ctx, c, filepath.Join(l.Data, datadir.Bytes), long)
}

// fillObjects makes files of objects that extents refer to.
func (e *environment) fillObjects(ctx context.Context, c sqliteConn, dir string, created time.Time) error {
	for shard := range 256 {
		if err := os.MkdirAll(filepath.Join(dir, hex.EncodeToString([]byte{byte(shard)})), 0o700); err != nil {
			return err
		}
	}
	var values []string
	for i := range sweptObjects {
		key := string(bytestore.NewName(created))
		if err := os.WriteFile(filepath.Join(dir, key[:2], key), nil, 0o600); err != nil {
			return err
		}
		values = append(values, fmt.Sprintf("(randomblob(16), 0, 0, 1, x'00000000', CAST('%s' AS BLOB))", key))
		if len(values) == 500 || i == sweptObjects-1 {
			if _, err := c.ExecContext(ctx, "INSERT INTO extents (content, part, off, size, blocks, object) VALUES "+strings.Join(values, ", "), nil); err != nil {
				return err
			}
			values = values[:0]
		}
	}
	return nil
}
