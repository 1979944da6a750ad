//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/client"
)

// How many blobs and sessions the small group has.
const (
	manyBlobs    = 100_000
	manySessions = 1000
)

// counterTarget is the target of uses against the bare handler, and against a counter in Redis.
const counterTarget = 0.55

func smallGroup() *group {
	return &group{name: "small", title: "Small requests", prepare: prepareSmall, notes: []string{
		"The bare handler is Go's http.Server, which sends sluice's response from memory. sluice has a --memory-cache that holds the 100,000 blobs; with the default size most of these reads need a query.",
		"A `use` takes a chunkset off a session, durably. Redis decrements a counter that it syncs to its append-only file (appendfsync always); webdis does so by HTTP.",
	}}
}

// perSecond is the unit of most rows.
const perSecond = "requests/s"

func prepareSmall(ctx context.Context, e *environment) ([]*row, error) {
	if err := e.need("wrk"); err != nil {
		return nil, err
	}
	// A payment may be as large as all uses in the measurement.
	s, err := e.startSluice(ctx, "small", "--unsettled-limit", maxChunksets, "--memory-cache", "1536MiB")
	if err != nil {
		return nil, err
	}
	names, err := s.storeMany(ctx, manyBlobs)
	if err != nil {
		return nil, err
	}
	if err := s.readAll(ctx, names); err != nil {
		return nil, err
	}
	all, err := e.pathsScript("gets", http.MethodGet, names)
	if err != nil {
		return nil, err
	}
	post, err := e.script("post", `wrk.method = "POST"`)
	if err != nil {
		return nil, err
	}
	one, err := e.buySession(ctx, s)
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
	get, err := record(ctx, http.MethodGet, s.url+names[0], nil)
	if err != nil {
		return nil, err
	}
	heads, err := record(ctx, http.MethodHead, s.url+names[0], nil)
	if err != nil {
		return nil, err
	}
	etag := get.Header.Get("ETag")
	unmodified, err := record(ctx, http.MethodGet, s.url+names[0], http.Header{"If-None-Match": {etag}})
	if err != nil {
		return nil, err
	}
	use, err := record(ctx, http.MethodPost, s.url+one, nil)
	if err != nil {
		return nil, err
	}
	b, bare, err := e.startBare(ctx, map[string]reply{"get": get, "head": heads, "unmodified": unmodified, "use": use})
	if err != nil {
		return nil, err
	}
	bareMany, err := e.pathsScript("baregets", http.MethodGet, replaceAll(names, "/v1/blobs/", "/get/"))
	if err != nil {
		return nil, err
	}
	bareUses, err := e.pathsScript("bareuses", http.MethodPost, replaceAll(sessions, "/v1/sessions/", "/use/"))
	if err != nil {
		return nil, err
	}
	wrk := func(name string, p *process, l wrkLoad) side {
		return side{name, func(ctx context.Context, d time.Duration) (measurement, error) { return l.run(ctx, e, p, d) }}
	}
	sluice := func(l wrkLoad) side { return wrk("sluice", s.process, l) }
	against := func(target float64, l wrkLoad) peer {
		return peer{side: wrk("bare handler", b, l), target: target}
	}
	heading := func(name string, p *process, url, path string) side { // wrk waits for a body after a HEAD
		l := ownLoad{32, url, requestOf(http.MethodHead, path, "", http.StatusOK, 0), true}
		return side{name, func(ctx context.Context, d time.Duration) (measurement, error) { return l.run(ctx, e, p, d) }}
	}
	condition := []string{"If-None-Match: " + etag}
	redis, err := e.startCounters(ctx)
	if err != nil {
		return nil, err
	}
	return []*row{
		{name: "GET 4 KiB, 32 connections", unit: perSecond, sluice: sluice(wrkLoad{32, s.url + names[0], "", nil}),
			peers: []peer{against(0.85, wrkLoad{32, bare + "/get/x", "", nil})}},
		{name: "GET 4 KiB of 100,000 blobs, 32 connections", unit: perSecond, sluice: sluice(wrkLoad{32, s.url, all, nil}),
			peers: []peer{against(0.6, wrkLoad{32, bare, bareMany, nil})}},
		{name: "HEAD, 32 connections", unit: perSecond, sluice: heading("sluice", s.process, s.url, names[0]),
			peers: []peer{{side: heading("bare handler", b, bare, "/head/x"), target: 0.7}}},
		{name: "304, 32 connections", unit: perSecond, sluice: sluice(wrkLoad{32, s.url + names[0], "", condition}),
			peers: []peer{against(0.7, wrkLoad{32, bare + "/unmodified/x", "", condition})}},
		{name: "use, 1 session, 64 connections", unit: perSecond, sluice: sluice(wrkLoad{64, s.url + one, post, nil}),
			peers: append([]peer{against(counterTarget, wrkLoad{64, bare + "/use/x", post, nil})}, redis.one...)},
		{name: "use, 1,000 sessions, 64 connections", unit: perSecond, sluice: sluice(wrkLoad{64, s.url, uses, nil}),
			peers: append([]peer{against(counterTarget, wrkLoad{64, bare, bareUses, nil})}, redis.many...)},
	}, nil
}

// replaceAll returns texts in which a prefix is replaced.
func replaceAll(texts []string, old, by string) []string {
	replaced := make([]string, len(texts))
	for i, text := range texts {
		replaced[i] = by + strings.TrimPrefix(text, old)
	}
	return replaced
}

// content4K is the content of small blobs.
var content4K = strings.Repeat("sluice! ", 512)

// storeMany stores n blobs of 4 KiB, and returns their paths.
func (s *sluiceServer) storeMany(ctx context.Context, n int) (paths []string, err error) {
	for i := range n {
		paths = append(paths, fmt.Sprintf("/v1/blobs/0x1/many/%07d", i))
	}
	return paths, concurrently(n, 32, func(i int) error {
		return s.send(ctx, http.MethodPut, paths[i], http.StatusNoContent, strings.NewReader(content4K))
	})
}

// readAll reads blobs once.
func (s *sluiceServer) readAll(ctx context.Context, paths []string) error {
	return concurrently(len(paths), 32, func(i int) error { return s.send(ctx, http.MethodGet, paths[i], http.StatusOK, nil) })
}

// send sends a request that prepares the load.
func (s *sluiceServer) send(ctx context.Context, method, path string, status int, body io.Reader) error {
	q, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return err
	}
	if at, ok := body.(*io.SectionReader); ok {
		q.ContentLength = at.Size()
	}
	p, err := setupClient.Do(q)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, p.Body)
	return errors.Join(err, p.Body.Close(), errorIf(p.StatusCode != status, method+": "+p.Status))
}

// setupClient stores the load's blobs, and reads them once.
var setupClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// concurrently calls fn for the numbers from 0 to n-1 until a call fails.
func concurrently(n, goroutines int, fn func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, goroutines)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := int(next.Add(1) - 1); i < n && errs[g] == nil; i = int(next.Add(1) - 1) {
				errs[g] = fn(i)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// createSessions creates sessions, and returns the paths for requests that use them.
func (s *sluiceServer) createSessions(ctx context.Context, n int) ([]string, error) {
	c, err := client.New(s.url, client.Options{})
	if err != nil {
		return nil, err
	}
	paths := make([]string, n)
	return paths, concurrently(n, 16, func(i int) error {
		created, err := c.CreateSession(ctx, client.CreateSessionOptions{})
		paths[i] = "/v1/sessions/" + created.ID + "/use"
		return err
	})
}

// maxChunksets is more than all uses in a measurement.
const maxChunksets = "1000000000000"

// buySession buys a session with maxChunksets by the commands for users, and returns the path
// for requests that use it.
func (e *environment) buySession(ctx context.Context, s *sluiceServer) (string, error) {
	account := filepath.Join(e.work, filepath.Base(s.data)+".account")
	if out, err := exec.CommandContext(ctx, e.sluice, "account", "new", account).CombinedOutput(); err != nil {
		return "", fmt.Errorf("sluice account new: %w: %s", err, out)
	}
	pay := exec.CommandContext(ctx, e.sluice, "pay", "--url", s.url, "--account-file", account, "--state-file", account+".state",
		"--chunksets", maxChunksets, "--deposit", maxChunksets, "--max-spend", maxChunksets, "--max-price", "1", "--json")
	pay.Stderr = os.Stderr
	out, err := pay.Output()
	if err != nil {
		return "", fmt.Errorf("sluice pay: %w", err)
	}
	var bought struct{ SessionID string }
	if err := json.Unmarshal(out, &bought); err != nil {
		return "", err
	}
	return "/v1/sessions/" + bought.SessionID + "/use", nil
}
