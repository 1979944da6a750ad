//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/units"
	"sluice/load"
)

func sizesGroup() *group {
	return &group{name: "sizes", title: "Over the size", prepare: prepareSizes, notes: []string{
		"GET over 32 connections, of one blob of each size; nginx and Go's http.FileServer serve files with the same bytes, nginx with sendfile and a cache of open files. PUT over 16 connections; versitygw does not sync.",
		"Each of the 100,000 blobs was read and checked once before; sluice has a --memory-cache that holds their rows.",
	}}
}

// The loads over the size.
const (
	sizeReaders = 32
	sizeWriters = 16
)

// sizes are the contents' sizes, with targets for the ratios to nginx (GET) and to versitygw (PUT);
// 0 means none.
var sizes = []struct {
	bytes    int64
	get, put float64
}{
	{1 << 10, 0, 0},
	{4 << 10, 0, 0},
	{17 << 10, 0.55, 2},
	{32 << 10, 0, 0},
	{33 << 10, 0, 0},
	{64 << 10, 0.85, 2},
	{128 << 10, 0, 0},
	{256 << 10, 1.1, 1.8},
	{512 << 10, 0, 0},
	{1 << 20, 1, 0},
	{4 << 20, 0, 0},
	{16 << 20, 0, 0},
	{64 << 20, 0, 0},
}

// Many blobs of one size, each a different one.
const (
	manyMedium = 100_000
	mediumSize = 64 << 10
)

func prepareSizes(ctx context.Context, e *environment) ([]*row, error) {
	if err := errors.Join(e.need("nginx", "wrk"), e.requireSpace(16)); err != nil {
		return nil, err
	}
	s, err := e.startSluice(ctx, "sizes", "--memory-cache", "1536MiB", "--verify-ttl", "1h")
	if err != nil {
		return nil, err
	}
	files := map[string]int64{}
	for _, one := range sizes {
		name := sizeName(one.bytes)
		files[name] = one.bytes
		if err := s.send(ctx, http.MethodPut, "/v1/blobs/0x1/"+name, http.StatusNoContent, contentOf(one.bytes)); err != nil {
			return nil, err
		}
	}
	n, url, err := e.startNginx(ctx, "", files)
	if err != nil {
		return nil, err
	}
	g, err := e.startGateway(ctx)
	if err != nil {
		return nil, err
	}
	b, bare, err := e.bareReads(ctx, s.url)
	if err != nil {
		return nil, err
	}
	var gets, puts []*row
	for _, one := range sizes {
		get := func(name string, p *process, url, path string) side {
			l := ownLoad{sizeReaders, url, requestOf(http.MethodGet, path+sizeName(one.bytes), "", http.StatusOK, one.bytes), true}
			return side{name, e.loadOf(&l, p)}
		}
		r := &row{name: "GET " + units.FormatSize(one.bytes), unit: perSecond,
			sluice: get("sluice", s.process, s.url, "/v1/blobs/0x1/"),
			peers:  []peer{{side: get("nginx", n, url, "/"), target: one.get}}}
		if one.get > 0 {
			r.peers = append(r.peers, peer{side: get("bare handler", b, bare, "/")})
		}
		gets = append(gets, r)
		put := func(name string, p *process, url, path string, status int) side {
			l := ownLoad{sizeWriters, url, putsOf(path+sizeName(one.bytes), one.bytes, status), true}
			return side{name, e.loadOf(&l, p)}
		}
		puts = append(puts, &row{name: "PUT " + units.FormatSize(one.bytes), unit: perSecond,
			sluice: put("sluice", s.process, s.url, "/v1/blobs/0x1/put/", http.StatusNoContent),
			peers:  []peer{{side: put("versitygw", g.process, "http://"+g.address, "/"+gatewayBucket+"/", http.StatusOK), target: one.put}}})
	}
	many, err := e.manyFiles(ctx, s, n, url)
	if err != nil {
		return nil, err
	}
	return append(append(gets, puts...), many), nil
}

// bareReads starts a bare handler for the sizes that have a target for GET, and returns its URL.
func (e *environment) bareReads(ctx context.Context, sluice string) (*process, string, error) {
	replies := map[string]reply{}
	for _, one := range sizes {
		if one.get > 0 {
			get, err := record(ctx, http.MethodGet, sluice+"/v1/blobs/0x1/"+sizeName(one.bytes), nil)
			if err != nil {
				return nil, "", err
			}
			replies[sizeName(one.bytes)] = get
		}
	}
	return e.startBare(ctx, replies)
}

func sizeName(size int64) string { return fmt.Sprint("size-", size) }

func contentOf(size int64) *io.SectionReader {
	return io.NewSectionReader(load.Content{Size: size}, 0, size)
}

func (e *environment) loadOf(l *ownLoad, p *process) func(context.Context, time.Duration) (measurement, error) {
	return func(ctx context.Context, d time.Duration) (measurement, error) { return l.run(ctx, e, p, d) }
}

// putsOf returns a load's requests that store a size under a few names.
func putsOf(path string, size int64, status int) func(n int64) (*load.Request, int, int64) {
	return func(n int64) (*load.Request, int, int64) {
		return &load.Request{Method: http.MethodPut, Path: fmt.Sprintf("%s/%d", path, n%(ring*sizeWriters)), Content: load.Content{Size: size, Seed: n}, Length: size}, status, size
	}
}

// manyFiles stores many blobs, reads each once, writes files with the same bytes, and returns a row
// that reads them at random.
func (e *environment) manyFiles(ctx context.Context, s *sluiceServer, n *process, url string) (*row, error) {
	files := filepath.Join(e.work, "nginx", "files")
	if err := os.Mkdir(filepath.Join(files, "many"), 0o700); err != nil {
		return nil, err
	}
	var blobs, names []string
	for i := range manyMedium {
		names = append(names, fmt.Sprintf("/many/%07d", i))
		blobs = append(blobs, "/v1/blobs/0x1"+names[i])
	}
	err := concurrently(manyMedium, sizeWriters, func(i int) error {
		return errors.Join(s.send(ctx, http.MethodPut, blobs[i], http.StatusNoContent, contentOf(mediumSize)),
			s.send(ctx, http.MethodGet, blobs[i], http.StatusOK, nil),
			writeFile(filepath.Join(files, names[i]), mediumSize))
	})
	if err != nil {
		return nil, err
	}
	one := func(name string, p *process, url string, paths []string) (side, error) {
		script, err := e.pathsScript(name, http.MethodGet, paths)
		l := wrkLoad{sizeReaders, url, script, nil}
		return side{name, func(ctx context.Context, d time.Duration) (measurement, error) { return l.run(ctx, e, p, d) }}, err
	}
	own, err := one("sluice", s.process, s.url, blobs)
	if err != nil {
		return nil, err
	}
	other, err := one("nginx", n, url, names)
	if err != nil {
		return nil, err
	}
	f, url, err := e.startFileServer(ctx, files)
	if err != nil {
		return nil, err
	}
	standard, err := one("http.FileServer", f, url, names)
	return &row{name: "GET 64 KiB of 100,000 blobs", unit: perSecond, sluice: own,
		peers: []peer{{side: other, target: 0.8}, {side: standard}}}, err
}
