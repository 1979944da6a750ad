//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"sluice/load"
)

type wrkLoad struct {
	connections int
	url         string
	script      string   // path; "": GET the URL
	headers     []string // such as "Name: value"
}

var (
	wrkRequests = regexp.MustCompile(`(?m)^\s*(\d+) requests in `)
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec:\s*([0-9.]+)`)
	wrkErrors   = regexp.MustCompile(`(?m)^\s*(Non-2xx.*|Socket errors.*)$`)
)

// run sends the load, and returns the operations a second.
func (l *wrkLoad) run(ctx context.Context, e *environment, server *process, d time.Duration) (measurement, error) {
	var m measurement
	var err error
	m.cpu, err = server.charged(func() (float64, error) {
		threads := max(1, min(l.connections, runtime.NumCPU()/2))
		args := []string{"-t", strconv.Itoa(threads), "-c", strconv.Itoa(l.connections), "-d", fmt.Sprintf("%ds", max(1, int(d.Round(time.Second)/time.Second)))}
		if l.script != "" {
			args = append(args, "-s", l.script)
		}
		for _, header := range l.headers {
			args = append(args, "-H", header)
		}
		out, err := exec.CommandContext(ctx, e.programs["wrk"], append(args, l.url)...).CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("wrk: %w: %s", err, out)
		}
		var requests float64
		requests, m.value, err = parseWrk(string(out))
		return requests, err
	})
	return m, err
}

// parseWrk returns the number of requests and the rate in wrk's output.
func parseWrk(out string) (requests, rate float64, err error) {
	if failed := wrkErrors.FindString(out); failed != "" {
		return 0, 0, fmt.Errorf("wrk: %s", strings.TrimSpace(failed))
	}
	n, r := wrkRequests.FindStringSubmatch(out), wrkRate.FindStringSubmatch(out)
	if n == nil || r == nil {
		return 0, 0, fmt.Errorf("wrk printed %q", out)
	}
	requests, err = strconv.ParseFloat(n[1], 64)
	if err == nil {
		rate, err = strconv.ParseFloat(r[1], 64)
	}
	return requests, rate, err
}

// script writes a file for wrk.
func (e *environment) script(name, text string) (path string, err error) {
	path = filepath.Join(e.work, name+".lua")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// pathsScript returns a script that requests a list's paths at random. The requests are made before
// the load.
func (e *environment) pathsScript(name, method string, paths []string) (string, error) {
	list := filepath.Join(e.work, name+".txt")
	if err := os.WriteFile(list, []byte(strings.Join(paths, "\n")+"\n"), 0o600); err != nil {
		return "", err
	}
	return e.script(name, fmt.Sprintf(`
local requests = {}
function init(args)
  math.randomseed(os.time())
  for path in io.lines(%q) do requests[#requests + 1] = wrk.format(%q, path) end
end
function request() return requests[math.random(#requests)] end
`, list, method))
}

// putScript returns a script that stores 4 KiB under new names below a path.
func (e *environment) putScript(name, path string) (string, error) {
	return e.script(name, fmt.Sprintf(`
local n, run, body = 0, "", string.rep("x", 4096)
function init(args)
  run = tostring({}):sub(8) .. os.time()
end
function request()
  n = n + 1
  return wrk.format("PUT", %q .. run .. "/" .. n, nil, body)
end
`, path))
}

// fixed is a load.Worker that sends requests that do not depend on the workload of sluice.
type fixed struct {
	conn    *load.Conn
	request func(n int64) (q *load.Request, status int, bytes int64)
}

// Do implements load.Worker.
func (f *fixed) Do(ctx context.Context, n int64) (int64, error) {
	q, status, bytes := f.request(n)
	p, err := f.conn.Do(ctx, q, status, false)
	if err == nil && q.Method == http.MethodGet && p.Length != bytes {
		err = fmt.Errorf("the response has %d bytes, want %d", p.Length, bytes)
	}
	return bytes, err
}

// loadTimeout ends a request that stalls.
const loadTimeout = time.Minute

// mib is the unit of throughput.
const mib = 1 << 20

// ownLoad is a load by package load. Each request has a status that is expected, and bytes of
// content.
type ownLoad struct {
	connections int
	url         string
	request     func(n int64) (q *load.Request, status int, bytes int64)
	rate        bool // reports whether the result is operations a second, and not MiB a second
}

// run sends the load for a time.
func (l *ownLoad) run(ctx context.Context, e *environment, server *process, d time.Duration) (measurement, error) {
	return l.runPlan(ctx, e, server, load.Plan{Duration: d})
}

func (l *ownLoad) runPlan(ctx context.Context, e *environment, server *process, plan load.Plan) (m measurement, err error) {
	target, err := load.NewTarget(l.url, "", "peers", loadTimeout)
	if err != nil {
		return m, err
	}
	target.Trust(e.authority)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // closes the connections
	m.cpu, err = server.charged(func() (float64, error) {
		var workers []load.Worker
		for range l.connections {
			workers = append(workers, &fixed{load.NewConn(target), l.request})
		}
		var r load.Recorder
		elapsed := plan.Run(ctx, workers, func(int64) load.Kind { return load.Get }, &r)
		total := r.Total()
		m.value = float64(total.Bytes) / mib / elapsed.Seconds()
		if l.rate {
			m.value = float64(total.Done) / elapsed.Seconds()
		}
		if total.First != nil {
			return 0, fmt.Errorf("%d of %d requests failed: %w", total.Failed(), total.Done, total.First)
		}
		return float64(total.Done), ctx.Err()
	})
	return m, err
}

// requestOf returns a load's request that is always the same.
func requestOf(method, path, fields string, status int, bytes int64) func(int64) (*load.Request, int, int64) {
	return func(int64) (*load.Request, int, int64) {
		return &load.Request{Method: method, Path: path, Fields: fields}, status, bytes
	}
}
