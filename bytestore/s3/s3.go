// Package s3 implements bytestore.Store in an S3-compatible object store's bucket, such as AWS,
// MinIO, Ceph or versitygw.
//
// An object is stored as one S3 object. Its key is the prefix and the name, and it contains the
// object's bytes and nothing else. It is written by one PutObject with "If-None-Match: *", so that
// objects are never replaced. The server must support conditional writes, which Open checks. The
// user metadata sluice-put identifies the Put that stored an object. Keys under the prefix that do
// not end in a valid name are ignored.
//
// A body is staged in memory or in a file before it is sent, so that every request has a known size
// and the body's SHA-256 (which is part of the signature and which the server verifies), and can be
// repeated. Requests that fail for a transient reason are retried a few times with increasing
// backoff.
//
// An object is as durable as the server makes it: it must have synced or replicated an object
// before it responds with 200. The bucket must not keep versions, or must expire noncurrent ones;
// otherwise Delete does not free space.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// Options are the options of Open. The zero value is valid.
type Options struct {
	// Staging is the folder for staged bodies. It must be used by one Store at a time. Default: the
	// folder sluice-staging in the system's folder for temporary files.
	Staging string
	// StagingLimit is the greatest total size of staged bodies in bytes. A Put reserves bytes as
	// its body is received, waits if there are none, and returns bytestore.ErrOverloaded if it has
	// to wait for too long. Default 1 GiB.
	StagingLimit int64
	// StagingStall is the time without a byte after which a body that is being staged may be
	// evicted for other bodies. Default 5 s.
	StagingStall time.Duration
	// StagingWait is how long a Put waits for staging space. Default 30 s.
	StagingWait time.Duration
	// StagingMemory limits the buffers for staged bodies in bytes; further bodies are staged in
	// files. Default 64 MiB.
	StagingMemory int64
	// ReadAheadMemory limits the buffers for prefetching in bytes; further readers do not prefetch.
	// Default 128 MiB.
	ReadAheadMemory int64
	// Stall is the time after which a connection is closed if nothing is sent or received during a
	// request. Default 30 s.
	Stall time.Duration
	// Now is the clock of Err. If it is nil, time.Now is used.
	Now func() time.Time
	// Transport, if not nil, wraps the transport of all requests, for example to observe them.
	Transport func(http.RoundTripper) http.RoundTripper
}

func (o *Options) setDefaults() {
	if o.Staging == "" {
		o.Staging = filepath.Join(os.TempDir(), "sluice-staging")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for option, byDefault := range map[*time.Duration]time.Duration{
		&o.Stall: 30 * time.Second, &o.StagingStall: 5 * time.Second, &o.StagingWait: 30 * time.Second,
	} {
		if *option == 0 {
			*option = byDefault
		}
	}
	for option, byDefault := range map[*int64]int64{
		&o.StagingLimit: 1 << 30, &o.StagingMemory: 64 << 20, &o.ReadAheadMemory: 128 << 20,
	} {
		if *option == 0 {
			*option = byDefault
		}
	}
}

// maxAttempts is how often a request is sent at most if it fails for a transient reason.
const maxAttempts = 5

// Store stores objects in a bucket. It implements bytestore.Store.
type Store struct {
	core      minio.Core
	transport *http.Transport
	bucket    string
	prefix    string
	staging   staging
	readAhead budget
	health    health
	requests  map[Operation]*requestCounts

	// puts is held for reading by each Put in progress, so that Close waits for it.
	puts   sync.RWMutex
	closed atomic.Bool

	noBatches atomic.Bool // the server does not support DeleteObjects
}

var _ bytestore.Store = (*Store)(nil)

// Open connects to the bucket, which must exist, and creates the staging folder. It returns an
// error if there are no credentials, if they do not permit to list the bucket, to write and to
// delete, or if the server does not support conditional writes, which Open tests with the object
// .sluice-probe under the prefix. The caller must Close the Store.
func Open(ctx context.Context, c Config, opt Options) (*Store, error) {
	s, err := open(ctx, c, opt)
	if err != nil {
		return nil, fmt.Errorf("s3: open %s: %w", c, err)
	}
	return s, nil
}

func open(ctx context.Context, c Config, opt Options) (*Store, error) {
	opt.setDefaults()
	s := newStore(c, opt)
	s.staging.dir = opt.Staging
	s.staging.quota = newStagingQuota(opt.StagingLimit, opt.StagingStall, opt.StagingWait)
	s.staging.memory.limit = opt.StagingMemory
	if err := s.staging.prepare(); err != nil {
		return nil, err
	}
	err := s.connect(ctx, c, opt)
	if err == nil {
		err = s.probe(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newStore returns a store that is not connected and stages nothing.
func newStore(c Config, opt Options) *Store {
	s := &Store{bucket: c.Bucket, prefix: c.Prefix, health: health{now: opt.Now}, requests: newRequestCounts()}
	s.readAhead.limit = opt.ReadAheadMemory
	return s
}

// connect creates the client and checks the bucket.
func (s *Store) connect(ctx context.Context, c Config, opt Options) (err error) {
	if s.transport, err = newTransport(c.CAFile, opt.Stall); err != nil {
		return err
	}
	var transport http.RoundTripper = s.transport
	if opt.Transport != nil {
		transport = opt.Transport(transport)
	}
	endpoint := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	if c.Endpoint != "" {
		if endpoint, err = url.Parse(c.Endpoint); err != nil {
			return errors.New("the endpoint is not a URL")
		}
	}
	creds := c.newCredentials()
	client, err := minio.New(endpoint.Host, &minio.Options{
		Creds:        creds,
		Secure:       endpoint.Scheme == "https",
		Transport:    revokingTransport{countingTransport{transport, s.requests}},
		Region:       c.region(),
		BucketLookup: lookups[c.PathStyle],
		MaxRetries:   maxAttempts,
	})
	if err != nil {
		return err
	}
	s.core = minio.Core{Client: client}
	if err := s.checkCredentials(ctx, creds); err != nil {
		return err
	}
	return s.checkBucket(ctx)
}

// checkBucket lists one name. Unlike a HEAD request for the bucket this returns an error that
// explains what is wrong: the credentials, the region, the bucket, or the permission to list it.
func (s *Store) checkBucket(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the object store did not respond within %s: check the endpoint and the state of the server", startTimeout))
	defer cancel()
	for o := range s.core.ListObjectsIter(ctx, s.bucket, s.listing(1)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if o.Err != nil {
			return contractError(o.Err)
		}
		break
	}
	return context.Cause(ctx)
}

// startTimeout limits the first request, so that a server that accepts connections and never
// responds does not block the start.
const startTimeout = 15 * time.Second

var lookups = map[PathStyle]minio.BucketLookupType{
	PathStyleOn:  minio.BucketLookupPath,
	PathStyleOff: minio.BucketLookupDNS,
}

// Close waits for the Puts in progress and makes all later calls fail with fs.ErrClosed. Open
// readers remain readable. Close is idempotent.
func (s *Store) Close() error {
	s.puts.Lock()
	defer s.puts.Unlock()
	s.closed.Store(true)
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	return nil
}

// usable returns the reason why a call must fail, or nil.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return fs.ErrClosed
	}
	return ctx.Err()
}

// key returns an object's key in the bucket.
func (s *Store) key(name bytestore.Name) string { return s.prefix + string(name) }

// Err returns the last Put's error if the server made it fail less than 30 seconds ago. It sends no
// request.
func (s *Store) Err() error {
	if err := s.health.err(); err != nil {
		return fmt.Errorf("s3: objects cannot be stored: %w", err)
	}
	return nil
}

// Ready returns an error if the store does not work at the moment: Err, or a small request's error,
// which is retried a few times. ctx limits the time.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.reach(ctx); err != nil {
		return fmt.Errorf("s3: %w", err)
	}
	return nil
}

// reach returns nil if the bucket exists and can be listed.
func (s *Store) reach(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	there, err := s.core.BucketExists(ctx, s.bucket)
	if err != nil {
		return fmt.Errorf("the bucket %s: %w", s.bucket, contractError(err))
	}
	if !there {
		return fmt.Errorf("there is no bucket %s", s.bucket)
	}
	return nil
}
