//go:build linux

package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// redisTarget is the target of uses against Redis.
const redisTarget = 0.7

// startRedis starts a Redis server that syncs each write, and returns the sides that decrement one
// counter and 1,000 counters. If it cannot be started, they return the reason.
func (e *environment) startRedis(ctx context.Context) (one, many peer) {
	p, address, err := e.runRedis(ctx)
	decrement := func(name string, keys int) peer {
		r := &redisLoad{program: e.programs["redis-benchmark"], address: address, keys: keys, rate: 5000}
		return peer{target: redisTarget, side: side{name, "synced (appendfsync always)", "redis-benchmark", func(ctx context.Context, d time.Duration) (measurement, error) {
			if err != nil {
				return measurement{}, err
			}
			return r.run(ctx, p, d)
		}}}
	}
	return decrement("Redis DECR", 1), decrement("Redis DECR, 1,000 keys", manySessions)
}

func (e *environment) runRedis(ctx context.Context) (*process, string, error) {
	if err := e.need("redis-server", "redis-benchmark"); err != nil {
		return nil, "", err
	}
	dir, err := e.folder("redis")
	if err != nil {
		return nil, "", err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, "", err
	}
	p, err := e.start(exec.Command(e.programs["redis-server"], "--bind", host, "--port", port, "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always"))
	if err != nil {
		return nil, "", err
	}
	return p, address, p.awaitPort(ctx, address)
}

// redisLoad decrements counters over 64 connections.
type redisLoad struct {
	program, address string
	keys             int
	rate             float64 // in the last run; it decides how many operations the next has
}

func (r *redisLoad) run(ctx context.Context, p *process, d time.Duration) (m measurement, err error) {
	host, port, err := net.SplitHostPort(r.address)
	if err != nil {
		return m, err
	}
	n := max(1000, int(r.rate*d.Seconds()))
	args := []string{"-h", host, "-p", port, "-c", "64", "-n", strconv.Itoa(n), "--csv"}
	if r.keys > 1 {
		args = append(args, "-r", strconv.Itoa(r.keys), "DECR", "counter:__rand_int__")
	} else {
		args = append(args, "DECR", "counter")
	}
	m.cpu, err = p.charged(func() (float64, error) {
		out, err := exec.CommandContext(ctx, r.program, args...).Output()
		if err != nil {
			return 0, fmt.Errorf("redis-benchmark: %w", err)
		}
		m.value, err = parseRedis(string(out))
		return float64(n), err
	})
	r.rate = m.value
	return m, err
}

// parseRedis returns the rate in the output of redis-benchmark --csv: a line of titles, and one of
// values.
func parseRedis(out string) (float64, error) {
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(lines) != 2 || len(lines[0]) < 2 || lines[0][1] != "rps" {
		return 0, fmt.Errorf("redis-benchmark printed %q", out)
	}
	return strconv.ParseFloat(lines[1][1], 64)
}
