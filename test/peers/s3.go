//go:build linux

package main

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"modernc.org/sqlite"

	"sluice/internal/datadir"
	"sluice/load"
	"sluice/storage"
)

func s3Group() *group {
	return &group{name: "s3", title: "S3's interface", prepare: prepareS3, notes: []string{
		"The same requests, without signatures, for sluice's S3 interface, for versitygw, which does not sync, and for sluice's native interface.",
		fmt.Sprintf("Each list returns 1,000 of %d keys, after a random one. The multipart upload has 16 parts of 64 MiB, sent four at a time.", listedNames),
	}}
}

// The targets of S3's interface: beside versitygw, beside it for large contents, and beside the
// native interface.
const (
	s3Target      = 1.5
	s3LargeTarget = 1.0
	nativeTarget  = 0.9
)

// s3Bench is the state that the rows share.
type s3Bench struct {
	*environment

	sluice  *sluiceServer
	s3      string // sluice's base URL for S3
	gateway *gateway
	err     error // why there is no gateway
}

func prepareS3(ctx context.Context, e *environment) ([]*row, error) {
	if err := errors.Join(e.need("wrk"), e.requireSpace(8)); err != nil {
		return nil, err
	}
	b := &s3Bench{environment: e}
	b.gateway, b.err = e.startGateway(ctx)
	if b.err == nil {
		b.err = b.fillGateway()
	}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	rows := []*row{}
	for _, one := range []struct {
		name        string
		size        int64
		connections int
		target      float64
	}{{"4 KiB", 4 << 10, 64, s3Target}, {"1 MiB", mib, 16, s3Target}, {"64 MiB", 64 * mib, 4, s3LargeTarget}} {
		rows = append(rows, b.puts(one.name, one.size, one.connections, one.target), b.gets(one.name, one.size, one.connections, one.target))
	}
	lists, err := b.lists()
	return append(rows, lists, b.multipart()), err
}

// start starts sluice over a million blobs.
func (b *s3Bench) start(ctx context.Context) error {
	data := filepath.Join(b.work, "s3")
	if err := fillNames(ctx, data); err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	b.s3 = "http://" + address
	b.sluice, err = b.startSluice(ctx, "s3", "--s3-addr", address)
	return err
}

// fillNames makes a data folder with as many blobs as lists have.
func fillNames(ctx context.Context, data string) error {
	s, err := storage.Open(ctx, storage.Location{Data: data}, storage.Options{})
	if err != nil {
		return err
	}
	if err := commitFirst(ctx, s); err != nil {
		return errors.Join(err, s.Close())
	}
	opened, err := new(sqlite.Driver).Open(filepath.Join(data, datadir.Database))
	if err != nil {
		return errors.Join(err, s.Close())
	}
	c := opened.(sqliteConn)
	columns, err := columnsOfBlobs(ctx, c)
	if err == nil {
		_, err = c.ExecContext(ctx, copyRows(columns, map[string]string{"name_head": "CAST(printf('names/%07d', i) AS BLOB)", "content": "randomblob(16)"},
			sqliteSeries(listedNames)), []driver.NamedValue{})
	}
	return errors.Join(err, opened.Close(), s.Close())
}

// fillGateway makes a bucket of as many files as lists have.
func (b *s3Bench) fillGateway() error {
	names := filepath.Join(b.work, "versitygw", gatewayBucket, "names")
	if err := os.Mkdir(names, 0o700); err != nil {
		return err
	}
	for i := range listedNames {
		if err := os.WriteFile(filepath.Join(b.work, "versitygw", gatewayBucket, listedName(i)), nil, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// row returns a row with run's measurements at each side's base URL and path.
func (b *s3Bench) row(name, unit string, target float64, run func(ctx context.Context, p *process, url, path string, d time.Duration) (measurement, error), native bool) *row {
	one := func(name string, p func() *process, url func() string, path string) side {
		var failed error // a gateway that ended nothing in time may work on beside the next measurement
		return side{name, func(ctx context.Context, d time.Duration) (m measurement, err error) {
			if name == "versitygw" {
				if err := cmp.Or(b.err, failed); err != nil {
					return m, err
				}
				defer func() { failed = err }()
			}
			return run(ctx, p(), url(), path, d)
		}}
	}
	ours := func() *process { return b.sluice.process }
	r := &row{name: name, unit: unit, sluice: one("sluice, S3", ours, func() string { return b.s3 }, "/"+listAccount)}
	r.peers = append(r.peers, peer{target: target, side: one("versitygw", func() *process { return b.gateway.process }, func() string { return "http://" + b.gateway.address }, "/"+gatewayBucket)})
	if native {
		r.peers = append(r.peers, peer{target: nativeTarget, side: one("sluice, native", ours, func() string { return b.sluice.url }, "/v1/blobs/"+listAccount)})
	}
	return r
}

// puts stores new contents, again and again under a few names.
func (b *s3Bench) puts(name string, size int64, connections int, target float64) *row {
	return b.row("PUT "+name, mibPerSecond, target, func(ctx context.Context, p *process, url, path string, d time.Duration) (measurement, error) {
		status := http.StatusOK
		if strings.HasPrefix(path, "/v1/") {
			status = http.StatusNoContent
		}
		l := ownLoad{connections, url, func(n int64) (*load.Request, int, int64) {
			return &load.Request{Method: http.MethodPut, Path: fmt.Sprintf("%s/put/%d/%d", path, size, n%int64(ring*connections)), Content: load.Content{Size: size, Seed: n}, Length: size}, status, size
		}, false}
		return l.run(ctx, b.environment, p, d)
	}, true)
}

// gets reads a content, which it stores before.
func (b *s3Bench) gets(name string, size int64, connections int, target float64) *row {
	return b.row("GET "+name, mibPerSecond, target, func(ctx context.Context, p *process, url, path string, d time.Duration) (measurement, error) {
		path = fmt.Sprintf("%s/get/%d", path, size)
		if err := storeOnce(ctx, url+path, load.Content{Size: size, Seed: 1}); err != nil {
			return measurement{}, err
		}
		l := ownLoad{connections, url, requestOf(http.MethodGet, path, "", http.StatusOK, size), false}
		return l.run(ctx, b.environment, p, d)
	}, true)
}

// storeOnce stores a content unless it is there.
func storeOnce(ctx context.Context, url string, content load.Content) error {
	for _, method := range []string{http.MethodHead, http.MethodPut} {
		r, err := http.NewRequestWithContext(ctx, method, url, nil)
		if err != nil {
			return err
		}
		if method == http.MethodPut {
			r.Body, r.ContentLength = io.NopCloser(io.NewSectionReader(content, 0, content.Size)), content.Size
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		switch {
		case res.StatusCode < 300:
			return nil
		case method == http.MethodPut:
			return fmt.Errorf("PUT %s: %s", url, res.Status)
		}
	}
	return nil
}

// lists reads pages after random keys.
func (b *s3Bench) lists() (*row, error) {
	scripts := map[string]string{}
	for _, path := range []string{"/" + listAccount, "/" + gatewayBucket, "/v1/blobs/" + listAccount} {
		var paths []string
		for range 1000 {
			after := listedName(rand.IntN(listedNames - pageSize - 1))
			query := "?list-type=2&start-after=" + after
			if strings.HasPrefix(path, "/v1/") {
				query = "?limit=1000&after=" + after
			}
			paths = append(paths, path+query)
		}
		script, err := b.pathsScript("list-"+strings.ReplaceAll(strings.Trim(path, "/"), "/", "-"), http.MethodGet, paths)
		if err != nil {
			return nil, err
		}
		scripts[path] = script
	}
	return b.row("list of 1,000 keys, 4 connections", perSecond, s3Target, func(ctx context.Context, p *process, url, path string, d time.Duration) (measurement, error) {
		l := wrkLoad{4, url, scripts[path], nil}
		return l.run(ctx, b.environment, p, d)
	}, true), nil
}

// The multipart upload.
const (
	uploadParts   = 16
	uploadPart    = 64 * mib
	uploadsAtOnce = 4
)

// multipart uploads 1 GiB in parts.
func (b *s3Bench) multipart() *row {
	return b.row("multipart upload of 1 GiB", mibPerSecond, s3LargeTarget, func(ctx context.Context, p *process, url, path string, _ time.Duration) (m measurement, err error) {
		c, err := minio.NewCore(strings.TrimPrefix(url, "http://"), &minio.Options{Creds: credentials.NewStaticV4(gatewayKey, gatewaySecret, ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath})
		if err != nil {
			return m, err
		}
		begun := time.Now()
		m.cpu, err = p.charged(func() (float64, error) { return 1, upload(ctx, c, strings.Trim(path, "/")) })
		m.value = float64(uploadParts*uploadPart/mib) / time.Since(begun).Seconds()
		return m, err
	}, false)
}

// upload uploads an object in parts.
func upload(ctx context.Context, c *minio.Core, bucket string) error {
	const key = "uploaded"
	id, err := c.NewMultipartUpload(ctx, bucket, key, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	parts, errs := make([]minio.CompletePart, uploadParts), make([]error, uploadParts)
	var senders sync.WaitGroup
	for sender := range uploadsAtOnce {
		senders.Go(func() {
			for i := sender; i < uploadParts; i += uploadsAtOnce {
				body := io.NewSectionReader(load.Content{Size: uploadPart, Seed: int64(i)}, 0, uploadPart)
				part, err := c.PutObjectPart(ctx, bucket, key, id, i+1, body, uploadPart, minio.PutObjectPartOptions{DisableContentSha256: true})
				parts[i], errs[i] = minio.CompletePart{PartNumber: i + 1, ETag: part.ETag}, err
			}
		})
	}
	senders.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	_, err = c.CompleteMultipartUpload(ctx, bucket, key, id, parts, minio.PutObjectOptions{})
	return err
}
