//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"sluice/load"
)

func writesGroup() *group {
	return &group{name: "writes", title: "Writes", prepare: prepareWrites, notes: []string{
		"versitygw gets the same requests, without signatures, and does not sync. The files are written and synced (fdatasync) by as many goroutines. All replace a few names again and again.",
	}}
}

// Targets of large PUTs.
const (
	mediumPut, mediumWriters = 1 << 20, 16
	largePut, largeWriters   = 64 << 20, 4
)

// mibPerSecond is the unit of rows of large contents.
const mibPerSecond = "MiB/s"

func prepareWrites(ctx context.Context, e *environment) ([]*row, error) {
	if err := errors.Join(e.need("wrk"), e.requireSpace(3)); err != nil {
		return nil, err
	}
	s, err := e.startSluice(ctx, "writes")
	if err != nil {
		return nil, err
	}
	puts, err := e.putScript("puts", "/v1/blobs/0x1/put/")
	if err != nil {
		return nil, err
	}
	gateway, err := e.gatewayPeer(ctx)
	if err != nil {
		return nil, err
	}
	files, err := e.folder("files")
	if err != nil {
		return nil, err
	}
	large := func(name string, size int64, writers int, target float64) *row {
		l := ownLoad{connections: writers, url: s.url, request: func(n int64) (*load.Request, int, int64) {
			path := fmt.Sprintf("/v1/blobs/0x1/large-%d/%d", size, n%int64(ring*writers))
			return &load.Request{Method: http.MethodPut, Path: path, Content: load.Content{Size: size, Seed: n}, Length: size}, http.StatusNoContent, size
		}}
		f := fileLoad{writers, size, filepath.Join(files, fmt.Sprint(size))}
		return &row{name: name, unit: mibPerSecond,
			sluice: side{"sluice", func(ctx context.Context, d time.Duration) (measurement, error) { return l.run(ctx, e, s.process, d) }},
			peers:  []peer{{side: side{"new files, fdatasync", f.run}, target: target}}}
	}
	l := wrkLoad{64, s.url, puts, nil}
	return []*row{
		{name: "PUT 4 KiB, 64 connections", unit: perSecond,
			sluice: side{"sluice", func(ctx context.Context, d time.Duration) (measurement, error) { return l.run(ctx, e, s.process, d) }},
			peers:  []peer{gateway}},
		large("PUT 1 MiB, 16 connections", mediumPut, mediumWriters, 0.65),
		large("PUT 64 MiB, 4 connections", largePut, largeWriters, 0.9),
	}, nil
}

// ring is the number of names of each writer.
const ring = 2

// fileLoad writes new files with a size below a path, and syncs each.
type fileLoad struct {
	writers int
	size    int64
	path    string
}

func (f *fileLoad) run(ctx context.Context, d time.Duration) (measurement, error) {
	var workers []load.Worker
	for i := range f.writers {
		workers = append(workers, &fileWriter{path: fmt.Sprintf("%s-%d", f.path, i), size: f.size})
	}
	var r load.Recorder
	plan := load.Plan{Duration: d}
	elapsed := plan.Run(ctx, workers, func(int64) load.Kind { return load.Put }, &r)
	total := r.Total()
	return measurement{value: float64(total.Bytes) / mib / elapsed.Seconds()}, errors.Join(total.First, ctx.Err())
}

// fileWriter writes files one after another.
type fileWriter struct {
	path  string
	size  int64
	files int64 // that were written
}

// Do implements load.Worker.
func (f *fileWriter) Do(_ context.Context, n int64) (int64, error) {
	name := fmt.Sprintf("%s-%d", f.path, f.files%ring)
	f.files++
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	content := load.Content{Size: f.size, Seed: n}
	for offset := int64(0); offset < f.size && err == nil; {
		b := content.Piece(offset, mib)
		_, err = file.Write(b)
		offset += int64(len(b))
	}
	if err == nil {
		err = syscall.Fdatasync(int(file.Fd()))
	}
	return f.size, errors.Join(err, file.Close())
}

// gateway is a versitygw over a folder, which stores an object in a file.
type gateway struct {
	*process

	address string
}

// The keys of versitygw, and its bucket, which everybody may read and write.
const (
	gatewayKey    = "sluice-peers"
	gatewaySecret = "sluice-peers-secret"
	gatewayBucket = "bucket"
)

func (e *environment) startGateway(ctx context.Context) (*gateway, error) {
	if err := e.need("versitygw"); err != nil {
		return nil, err
	}
	dir, err := e.folder("versitygw")
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, gatewayBucket), 0o700); err != nil {
		return nil, err
	}
	g := &gateway{}
	if g.address, err = freeAddress(); err != nil {
		return nil, err
	}
	command := exec.Command(e.programs["versitygw"], "--port", g.address, "--keep-alive", "--quiet", "posix", dir)
	command.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+gatewayKey, "ROOT_SECRET_KEY="+gatewaySecret)
	if g.process, err = e.start(command); err != nil {
		return nil, err
	}
	if err := g.awaitPort(ctx, g.address); err != nil {
		return nil, err
	}
	c, err := minio.New(g.address, &minio.Options{Creds: credentials.NewStaticV4(gatewayKey, gatewaySecret, ""), Region: "us-east-1"})
	if err != nil {
		return nil, err
	}
	return g, c.SetBucketPolicy(ctx, gatewayBucket, strings.ReplaceAll(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:PutObject","s3:GetObject"],"Resource":["arn:aws:s3:::BUCKET/*"]},{"Effect":"Allow","Principal":"*","Action":["s3:ListBucket"],"Resource":["arn:aws:s3:::BUCKET"]}]}`, "BUCKET", gatewayBucket))
}

// gatewayPeer starts a versitygw, and returns PUTs of 4 KiB to it.
func (e *environment) gatewayPeer(ctx context.Context) (peer, error) {
	g, startErr := e.startGateway(ctx)
	script, err := e.putScript("objects", "/"+gatewayBucket+"/")
	if err != nil {
		return peer{}, err
	}
	return peer{target: 3, side: side{"versitygw", func(ctx context.Context, d time.Duration) (measurement, error) {
		if startErr != nil {
			return measurement{}, startErr
		}
		l := wrkLoad{64, "http://" + g.address, script, nil}
		return l.run(ctx, e, g.process, d)
	}}}, nil
}
