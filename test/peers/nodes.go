//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/test/testenv"
)

func nodesGroup() *group {
	return &group{name: "nodes", title: "A node over PostgreSQL", prepare: prepareNodes, notes: []string{
		"One node with an object store, over PostgreSQL behind a Unix socket. pgbench prepares a statement on each of 64 connections: " +
			"a SELECT of a row of 4 KiB by its key, or an UPDATE of one counter or of one of 1,000, committed with a sync. pg_stat_statements counts statements, including those of the node's tasks.",
	}}
}

// nodeBlobs is the number of blobs that are read from a node.
const nodeBlobs = 1000

func prepareNodes(ctx context.Context, e *environment) ([]*row, error) {
	if err := e.need("postgres", "wrk"); err != nil {
		return nil, err
	}
	g, err := e.startGateway(ctx)
	if err != nil {
		return nil, err
	}
	database, err := e.startPostgres(ctx)
	if err != nil {
		return nil, err
	}
	s, err := e.startSluiceWith(ctx, "node", []string{"AWS_ACCESS_KEY_ID=" + gatewayKey, "AWS_SECRET_ACCESS_KEY=" + gatewaySecret},
		"--meta", database.DSN(), "--bytes", fmt.Sprintf("s3://%s/blobs?endpoint=http://%s&path-style=on", gatewayBucket, g.address), "--unsettled-limit", maxChunksets)
	if err != nil {
		return nil, err
	}
	names, err := s.storeMany(ctx, nodeBlobs)
	if err != nil {
		return nil, err
	}
	gets, err := e.pathsScript("gets", http.MethodGet, names)
	if err != nil {
		return nil, err
	}
	one, err := e.buySession(ctx, s)
	if err != nil {
		return nil, err
	}
	post, err := e.script("post", `wrk.method = "POST"`)
	if err != nil {
		return nil, err
	}
	sessions, err := s.createSessions(ctx, manySessions)
	if err != nil {
		return nil, err
	}
	uses, err := e.pathsScript("uses", http.MethodPost, sessions)
	if err != nil {
		return nil, err
	}
	wrk := func(l wrkLoad) side {
		return side{"sluice", func(ctx context.Context, d time.Duration) (measurement, error) { return l.run(ctx, e, s.process, d) }}
	}
	read, update, updates := wrk(wrkLoad{64, s.url, gets, nil}), wrk(wrkLoad{64, s.url + one, post, nil}), wrk(wrkLoad{64, s.url, uses, nil})
	counted := read
	counted.run = func(ctx context.Context, d time.Duration) (measurement, error) {
		return statementsOf(ctx, database, read, d)
	}
	return []*row{
		{name: "GET 4 KiB, 64 connections", unit: perSecond, sluice: read,
			peers: []peer{{side: e.pgbench(database, "SELECT of a row", `\set id random(1, 1000)`+"\n"+`SELECT body FROM peers_rows WHERE id = :id;`), target: 0.45}}},
		{name: "GET 4 KiB", unit: "statements of PostgreSQL", sluice: counted,
			peers: []peer{{side: always("one statement", 1), target: 1.05, atMost: true}}},
		{name: "use, 1 session, 64 connections", unit: perSecond, sluice: update,
			peers: []peer{{side: e.pgbench(database, "UPDATE of one row", `UPDATE peers_counters SET n = n - 1 WHERE id = 1;`), target: 3}}},
		{name: "use, 1,000 sessions, 64 connections", unit: perSecond, sluice: updates,
			peers: []peer{{side: e.pgbench(database, "UPDATE of 1,000 rows", `\set id random(1, 1000)`+"\n"+`UPDATE peers_counters SET n = n - 1 WHERE id = :id;`)}}},
	}, nil
}

// always is a side that has a fixed value: a limit.
func always(name string, value float64) side {
	return side{name, func(context.Context, time.Duration) (measurement, error) { return measurement{value: value}, nil }}
}

// startPostgres starts a server with the tables of pgbench.
func (e *environment) startPostgres(ctx context.Context) (*testenv.PostgresServer, error) {
	s, err := testenv.NewPostgres()
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, s.Remove)
	if err := s.StopFast(); err != nil {
		return nil, err
	}
	if err := s.Start("shared_preload_libraries=pg_stat_statements", "shared_buffers=256MB"); err != nil {
		return nil, err
	}
	for _, statement := range []string{
		"CREATE EXTENSION pg_stat_statements",
		"CREATE TABLE peers_rows (id INT PRIMARY KEY, body BYTEA)",
		"INSERT INTO peers_rows SELECT i, convert_to(repeat(md5(CAST(i AS TEXT)), 128), 'UTF8') FROM generate_series(1, 1000) i",
		"CREATE TABLE peers_counters (id INT PRIMARY KEY, n BIGINT)",
		"INSERT INTO peers_counters SELECT i, 0 FROM generate_series(1, 1000) i",
		"VACUUM ANALYZE",
	} {
		if err := s.Exec(statement); err != nil {
			return nil, fmt.Errorf("%s: %w", statement, err)
		}
	}
	return s, ctx.Err()
}

var pgbenchRate = regexp.MustCompile(`(?m)^tps = ([0-9.]+) `)

func (e *environment) pgbench(s *testenv.PostgresServer, name, script string) side {
	return side{"pgbench, " + name, func(ctx context.Context, d time.Duration) (m measurement, err error) {
		command := exec.CommandContext(ctx, filepath.Join(e.programs["postgres"], "pgbench"), "--no-vacuum", "--host", filepath.Dir(s.Socket()), "--username", "sluice",
			"--client", "64", "--jobs", "2", "--protocol", "prepared", "--time", strconv.Itoa(max(1, int(d.Round(time.Second)/time.Second))), "--file", "-", "postgres")
		command.Stdin = strings.NewReader(script + "\n")
		out, err := command.CombinedOutput()
		if err != nil {
			return m, fmt.Errorf("pgbench: %w: %s", err, out)
		}
		found := pgbenchRate.FindSubmatch(out)
		if found == nil {
			return m, fmt.Errorf("pgbench printed %q", out)
		}
		m.value, err = strconv.ParseFloat(string(found[1]), 64)
		return m, err
	}}
}

// statementsOf returns how many statements PostgreSQL executes for each operation in a load.
func statementsOf(ctx context.Context, s *testenv.PostgresServer, of side, d time.Duration) (m measurement, err error) {
	conn, err := pgx.Connect(ctx, s.DSN())
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	calls := func() (n float64, err error) {
		err = conn.QueryRow(ctx, "SELECT CAST(SUM(calls) AS FLOAT8) FROM pg_stat_statements").Scan(&n)
		return n, err
	}
	before, err := calls()
	if err != nil {
		return m, err
	}
	begin := time.Now()
	rate, err := of.run(ctx, d)
	if err != nil {
		return m, err
	}
	operations := rate.value * time.Since(begin).Seconds()
	after, err := calls()
	return measurement{(after - before) / operations, rate.cpu}, err
}
