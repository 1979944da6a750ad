// Package s3 is a bytestore.Store in a bucket of any S3-compatible object
// store: AWS, MinIO, Ceph, versitygw and others.
//
// An object is one S3 object, named by the prefix and the key, which holds the
// object's bytes and nothing else. It is written by one PutObject that says
// "If-None-Match: *", so that nothing is ever replaced: the server has to know
// conditional writes, and Open makes sure of it. The user metadata sluice-put names the Put that made it.
// Names under the prefix that are not valid keys are never taken for objects.
//
// A body is staged before it goes out, in memory or in a file, so that every
// request has a known size, the body's SHA-256 (which the server checks, as a
// part of the signature), and can be repeated. Requests that fail for a passing
// reason are repeated a few times, with pauses that grow.
//
// How durable an acknowledged object is, is the server's promise: it must
// have synced, or replicated, what it answers 200 for. The bucket must not keep
// versions, or must expire those that are not current: else Delete gives no
// space back.
package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"

	"sluice/bytestore"
)

// Options of Open. The zero value works.
type Options struct {
	// Staging is the folder for bodies on their way out. It belongs to one
	// Store at a time. Default: the folder sluice-staging among the system's
	// temporary files.
	Staging string
	// StagingLimit is how many bytes of bodies are staged at most. A Put takes
	// its part of it as its bytes come, waits for it while there is none, and
	// fails with bytestore.ErrOverloaded where none comes. Default 1 GiB.
	StagingLimit int64
	// StagingStall is after how long without a byte a body that is being staged
	// gives way to others that need the room. Default 5 s.
	StagingStall time.Duration
	// StagingWait is how long a Put waits for room. Default 30 s.
	StagingWait time.Duration
	// StagingMemory is how many bytes of buffers hold staged bodies at most;
	// over it they go into files. Default 64 MiB.
	StagingMemory int64
	// ReadAheadMemory is how many bytes of buffers are filled ahead of readers
	// at most; over it readers fetch what they need when they need it.
	// Default 128 MiB.
	ReadAheadMemory int64
	// Stall is after how long a connection is given up on which nothing moves
	// in the middle of a request. Default 30 s.
	Stall time.Duration
	// Now is the clock of Err; time.Now when nil.
	Now func() time.Time
	// Transport, when not nil, wraps the transport of all requests, to watch
	// them.
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

// attempts is how often a request is sent at most, for passing failures.
const attempts = 5

// Store keeps objects in a bucket. It implements bytestore.Store.
type Store struct {
	core      minio.Core
	transport *http.Transport
	bucket    string
	prefix    string
	staging   staging
	readAhead budget
	health    health

	// puts is held for reading by each Put under way, so that Close waits.
	puts   sync.RWMutex
	closed atomic.Bool

	oneByOne atomic.Bool // the server does not delete several objects by one request
}

var _ bytestore.Store = (*Store)(nil)

// Open connects to the bucket, which must exist, and makes the staging folder.
// It fails when there are no credentials, when with them the bucket cannot be
// listed, written or deleted from, and when the server does not know conditional writes,
// which it tries on the object .sluice-probe under the prefix.
func Open(ctx context.Context, c Config, opt Options) (*Store, error) {
	s, err := open(ctx, c, opt)
	if err != nil {
		return nil, fmt.Errorf("s3: open %s: %w", c, err)
	}
	return s, nil
}

func open(ctx context.Context, c Config, opt Options) (*Store, error) {
	opt.setDefaults()
	s := &Store{bucket: c.Bucket, prefix: c.Prefix, health: health{now: opt.Now}}
	s.staging.dir = opt.Staging
	s.staging.room = newRoom(opt.StagingLimit, opt.StagingStall, opt.StagingWait)
	s.staging.memory.limit = opt.StagingMemory
	s.readAhead.limit = opt.ReadAheadMemory
	if err := s.staging.prepare(); err != nil {
		return nil, err
	}
	if err := s.connect(ctx, c, opt); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect makes the client and looks at the bucket.
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
		Transport:    lender{transport},
		Region:       c.region(),
		BucketLookup: lookups[c.PathStyle],
		MaxRetries:   attempts,
	})
	if err != nil {
		return err
	}
	s.core = minio.Core{Client: client}
	if err := s.checkCredentials(ctx, creds); err != nil {
		return err
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	return s.probe(ctx)
}

// look lists one name, which unlike a look at the bucket alone tells in words
// what is wrong: the keys, the region, the bucket, or the right to list it.
func (s *Store) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("the object store did not answer within %s: is the endpoint right, and is it well?", answerTime))
	defer cancel()
	for o := range s.core.ListObjectsIter(ctx, s.bucket, s.listing(1)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if o.Err != nil {
			return native(o.Err)
		}
		break
	}
	return context.Cause(ctx)
}

// answerTime is how long the first request of a start waits: a server that takes
// connections and is silent must not keep the start waiting.
const answerTime = 4 * time.Second

var lookups = map[PathStyle]minio.BucketLookupType{
	PathStyleOn:  minio.BucketLookupPath,
	PathStyleOff: minio.BucketLookupDNS,
}

// Close waits for the Puts under way and makes all later calls fail with
// fs.ErrClosed. Readers that are open stay readable. A second Close does
// nothing.
func (s *Store) Close() error {
	s.puts.Lock()
	defer s.puts.Unlock()
	s.closed.Store(true)
	if s.transport != nil {
		s.transport.CloseIdleConnections()
	}
	return nil
}

// usable is why a call cannot begin.
func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return fs.ErrClosed
	}
	return ctx.Err()
}

// name is the S3 name of an object.
func (s *Store) name(key bytestore.Key) string { return s.prefix + string(key) }

// native adds the contract's error to one of the client. What is likely to pass
// becomes bytestore.ErrOverloaded.
func native(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	reply := minio.ToErrorResponse(err)
	switch {
	case reply.StatusCode == 0: // no reply
	case strings.HasPrefix(reply.Code, strconv.Itoa(reply.StatusCode)): // a reply without words
		err = fmt.Errorf("the object store answered %w", err)
	default:
		err = fmt.Errorf("the object store answered %d %s: %w", reply.StatusCode, reply.Code, err)
	}
	var untrusted *tls.CertificateVerificationError
	switch {
	case reply.Code == minio.NoSuchBucket, errors.As(err, &untrusted):
		return err
	case reply.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", bytestore.ErrNotFound, err)
	case reply.StatusCode == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", bytestore.ErrExists, err)
	case reply.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fmt.Errorf("%w: %w", bytestore.ErrTruncated, err)
	case isFull(reply):
		return fmt.Errorf("%w: %w", bytestore.ErrNoSpace, err)
	case passes(reply):
		return fmt.Errorf("%w: %w", bytestore.ErrOverloaded, err)
	}
	return err
}

// isFull reports whether the server, or the quota of its user, is full. There
// is no standard code for it.
func isFull(reply minio.ErrorResponse) bool {
	switch reply.Code {
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "NoSpaceLeftOnDevice":
		return true
	}
	return reply.StatusCode == http.StatusInsufficientStorage
}

// passes reports whether the same request may succeed later: throttled, failed
// inside the server, or never answered.
func passes(reply minio.ErrorResponse) bool {
	switch reply.StatusCode {
	case 0, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true
	}
	return reply.StatusCode >= 500 && reply.StatusCode != http.StatusNotImplemented
}
