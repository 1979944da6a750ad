//go:build linux

package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// counters are programs beside which uses are measured, with one counter or with 1,000.
type counters struct{ one, many []peer }

// startCounters starts a Redis server that syncs each write, and webdis, which decrements its
// counters by HTTP. If one of them cannot be started, its loads return the reason.
func (e *environment) startCounters(ctx context.Context) (c counters, err error) {
	redis, address, failed := e.runRedis(ctx)
	decrement := func(name string, keys int) peer {
		r := &redisLoad{program: e.programs["redis-benchmark"], address: address, keys: keys, rate: 5000}
		return peer{target: counterTarget, side: side{name, func(ctx context.Context, d time.Duration) (measurement, error) {
			if failed != nil {
				return measurement{}, failed
			}
			return r.run(ctx, redis, d)
		}}}
	}
	var paths []string
	for i := range manySessions {
		paths = append(paths, fmt.Sprintf("/DECR/counter:%012d", i)) // as redis-benchmark names them
	}
	script, err := e.pathsScript("decrements", http.MethodGet, paths)
	if err != nil {
		return c, err
	}
	front, url, unusable := e.runWebdis(ctx, redis, address, failed)
	decrementByHTTP := func(name, url, script string) peer {
		l := wrkLoad{64, url, script, nil}
		return peer{target: 1, side: side{name, func(ctx context.Context, d time.Duration) (measurement, error) {
			if unusable != nil {
				return measurement{}, unusable
			}
			return l.run(ctx, e, front, d)
		}}}
	}
	c.one = []peer{decrement("Redis DECR", 1), decrementByHTTP("webdis, DECR", url+"/DECR/counter", "")}
	c.many = []peer{decrement("Redis DECR, 1,000 keys", manySessions), decrementByHTTP("webdis, DECR, 1,000 keys", url, script)}
	return c, nil
}

// runWebdis starts webdis before a Redis server, and returns its URL. failed is why there is no
// such server.
func (e *environment) runWebdis(ctx context.Context, redis *process, address string, failed error) (*process, string, error) {
	if err := errors.Join(failed, e.need("webdis")); err != nil {
		return nil, "", err
	}
	dir, err := e.folder("webdis")
	if err != nil {
		return nil, "", err
	}
	own, err := freeAddress()
	if err != nil {
		return nil, "", err
	}
	settings := map[string]any{"threads": runtime.NumCPU(), "daemonize": false, "verbosity": 0, "logfile": filepath.Join(dir, "log")}
	for prefix, address := range map[string]string{"redis": address, "http": own} {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, "", err
		}
		settings[prefix+"_host"] = host
		if settings[prefix+"_port"], err = strconv.Atoi(port); err != nil {
			return nil, "", err
		}
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(dir, "webdis.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, "", err
	}
	command := exec.Command(e.programs["webdis"], file)
	command.Dir = dir // it creates a log there before it reads the file
	p, err := e.start(command)
	if err != nil {
		return nil, "", err
	}
	p.behind = redis
	return p, "http://" + own, p.awaitPort(ctx, own)
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
