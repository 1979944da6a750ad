package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"sluice/checksum"
	"sluice/wire"
)

// Defaults of PutOptions and DownloadOptions.
const (
	DefaultPartSize    = 16 << 20
	DefaultRangeSize   = 16 << 20
	DefaultConcurrency = 4
)

// PutOptions are options for writing. The zero value replaces whatever is there.
type PutOptions struct {
	// ContentType "" means application/octet-stream, except that PutFile guesses the type by the
	// blob's name and the first bytes: see the function ContentType.
	ContentType string

	Expires time.Time // when the blob expires; zero: never
	Lock    Lock      // the version's; zero: the account's. The key needs retain for it

	// The blob's further headers. Metadata are custom headers without "Blob-Meta-".
	CacheControl       string
	ContentDisposition string
	ContentLanguage    string
	Metadata           map[string]string

	// IfAbsent makes the write succeed only if there is no such blob, IfMatch only if it has this
	// ETag. The error is ErrPreconditionFailed otherwise, and ErrOutcomeUnknown if the condition
	// may be false because an earlier attempt at the same write succeeded.
	IfAbsent bool
	IfMatch  string

	// Size is a stream's expected size in bytes, if it is known. It is only used to choose the part
	// size: without it, a stream may have at most 100,000 times DefaultPartSize.
	Size int64

	// PartSize is how many bytes a part has, at most 5 GiB. A content that is not larger than a
	// part is sent in a single request. 0 means DefaultPartSize, or as much as is needed for
	// 100,000 parts.
	PartSize int64

	// Concurrency is the number of parts that are sent concurrently. 0 means DefaultConcurrency.
	Concurrency int

	// SkipDigest omits the SHA-256 of a blob that is sent in a single request, which the server
	// compares before it stores the bytes. The stored CRC-64 is compared in any case, after that.
	// A part has no SHA-256: its CRC-64 is compared when it is stored, and the whole's before the
	// blob is visible.
	SkipDigest bool

	// StateFile is the path of PutFile's state file. "" means one beside the file.
	StateFile string

	// Progress is called with the number of bytes that were sent, and with the content's size or -1
	// if it is not known. The first call has only the bytes that the server had if an upload is
	// resumed. The number decreases if bytes must be sent again. The last call precedes the return.
	// Calls do not overlap; a slow one delays no transfer.
	Progress func(done, total int64)
}

// setConditions sets the conditions' headers.
func (o *PutOptions) setConditions(r *request) {
	if o.IfAbsent {
		r.header.Set("If-None-Match", "*")
	}
	if o.IfMatch != "" {
		r.header.Set("If-Match", o.IfMatch)
	}
}

// setProperties sets the headers that describe the blob.
func (o *PutOptions) setProperties(h http.Header) {
	for name, value := range map[string]string{
		"Content-Type": o.ContentType, "Cache-Control": o.CacheControl,
		"Content-Disposition": o.ContentDisposition, "Content-Language": o.ContentLanguage,
	} {
		if value != "" {
			h.Set(name, value)
		}
	}
	for name, value := range o.Metadata {
		// As it is: the server refuses names that differ in case alone.
		h[wire.HeaderBlobMeta+name] = []string{value}
	}
	if !o.Expires.IsZero() {
		h.Set(wire.HeaderBlobExpires, o.Expires.UTC().Format(time.RFC3339Nano))
	}
	o.Lock.setFields(h)
}

// beginJSON returns the request that begins an upload. It has all options that decide how the blob
// is stored, except IfMatch.
func (o *PutOptions) beginJSON(account, name string, partSize int64) wire.BeginUpload {
	begin := wire.BeginUpload{
		RawAccount: &account, RawBlobName: &name, RawPartSize: &partSize, ContentType: o.ContentType,
		CacheControl: o.CacheControl, ContentDisposition: o.ContentDisposition, ContentLanguage: o.ContentLanguage, Metadata: o.Metadata, Lock: o.Lock.wire(),
	}
	if !o.Expires.IsZero() {
		begin.Expires = o.Expires.UTC().Format(time.RFC3339Nano)
	}
	if o.IfAbsent {
		begin.IfNoneMatch = "*"
	}
	return begin
}

// describe sets the properties that were sent, or that the server has set in their place.
func (o *PutOptions) describe(b *Blob, size int64) {
	b.Size, b.ContentType, b.Expires = size, cmp.Or(o.ContentType, "application/octet-stream"), o.Expires
	b.CacheControl, b.ContentDisposition, b.ContentLanguage, b.Metadata = o.CacheControl, o.ContentDisposition, o.ContentLanguage, o.Metadata
}

// check returns ErrInvalid if the options are out of range, or cannot be sent as headers.
func (o *PutOptions) check() error {
	if o.PartSize < 0 || o.PartSize > maxPartSize {
		return fmt.Errorf("client: %w: PartSize must be 0 to %d", ErrInvalid, maxPartSize)
	}
	h := http.Header{}
	o.setProperties(h)
	if err := checkHeader(h); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

func (o *PutOptions) concurrency() int {
	if o.Concurrency > 0 {
		return o.Concurrency
	}
	return DefaultConcurrency
}

// partSize returns the part size for size bytes: the default, unless it would take too many.
func (o *PutOptions) partSize(size int64) int64 {
	if o.PartSize > 0 {
		return o.PartSize
	}
	const unit = 1 << 20
	needed := (size + maxParts - 1) / maxParts
	return max(DefaultPartSize, (needed+unit-1)/unit*unit)
}

// Put stores the bytes of r. It sends a content that fits into a part in a single request, and
// anything larger as a multipart upload, and returns the stored blob. After it returned without an
// error, the blob survives a power cut on the server, and every later read returns it. It returns
// ErrCorrupt if the server stored other bytes.
//
// A reader that is also an io.ReaderAt and an io.Seeker, such as an *os.File or a *bytes.Reader, is
// read by ReadAt, from its position to its end, and little of it is in memory. Its position
// afterwards is unspecified. Parts of any other reader are kept in memory, one for each concurrent
// request.
//
// A failed upload is aborted. To resume it later, use PutFile.
func (c *Client) Put(ctx context.Context, account, name string, r io.Reader, o PutOptions) (Blob, error) {
	if err := o.check(); err != nil {
		return Blob{}, err
	}
	if content, ok, err := section(r); ok || err != nil {
		if err != nil {
			return Blob{}, fmt.Errorf("client: put a blob: %w", err)
		}
		return c.putSection(ctx, account, name, content, &o)
	}
	return c.putStream(ctx, account, name, r, &o)
}

// section returns the rest of r if it can be read by ReadAt.
func section(r io.Reader) (_ *io.SectionReader, ok bool, err error) {
	if f, isFile := r.(*os.File); isFile {
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil, false, err
		}
	}
	at, isAt := r.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !isAt {
		return nil, false, nil
	}
	begin, err := at.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, false, err
	}
	end, err := at.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, false, err
	}
	return io.NewSectionReader(at, begin, max(0, end-begin)), true, nil
}

// putSection stores content that can be read several times.
func (c *Client) putSection(ctx context.Context, account, name string, content *io.SectionReader, o *PutOptions) (Blob, error) {
	p := startProgress(o.Progress, content.Size())
	defer p.end()
	if content.Size() <= o.partSize(content.Size()) {
		return c.putWhole(ctx, account, name, content, content.Size(), o, p)
	}
	u, err := c.beginUpload(ctx, account, name, o.partSize(content.Size()), o, p)
	if err != nil {
		return Blob{}, err
	}
	b, err := u.sendSection(ctx, content, nil)
	if err != nil {
		u.abort(ctx)
	}
	return b, err
}

// putWhole stores content in a single request.
func (c *Client) putWhole(ctx context.Context, account, name string, content io.ReaderAt, size int64, o *PutOptions, p *progress) (Blob, error) {
	path, err := blobPath(account, name)
	if err != nil {
		return Blob{}, err
	}
	r := newRequest("put a blob", http.MethodPut, path, idempotent)
	o.setConditions(r)
	r.conditional = o.IfAbsent || o.IfMatch != ""
	o.setProperties(r.header)
	digestHeader := wire.HeaderReprDigest
	if o.SkipDigest {
		digestHeader = ""
	}
	sent, h, err := c.sendRange(ctx, r, digestHeader, content, 0, size, p)
	if err != nil {
		return Blob{}, err
	}
	b, err := parseBlob(name, h, size)
	if err != nil {
		return Blob{}, r.failed(err)
	}
	o.describe(&b, size)
	if !o.SkipDigest {
		b.SHA256 = sent.sha256[:]
	}
	return b, checkStored(b.ETag, checksum.ETag(size, sent.crc))
}

// sums are the checksums of bytes that are sent.
type sums struct {
	crc      uint64
	sha256   [sha256.Size]byte
	released bool // reports whether nothing reads the content any more
}

// sendRange sends r with length bytes of content from offset on, and their SHA-256 in a header,
// unless that is "". It reads the bytes twice: first for their checksums, then to send them, which
// copies no bytes of a file. If the server received other bytes, it returns ErrChanged if the
// content has changed, and repeats the request otherwise.
func (c *Client) sendRange(ctx context.Context, r *request, digestHeader string, content io.ReaderAt, offset, length int64, p *progress) (sent sums, h http.Header, err error) {
	digested := digestHeader != ""
	if sent, err = sumRange(ctx, content, offset, length, digested); err != nil {
		return sums{}, nil, fmt.Errorf("client: %s: %w", r.name, err)
	}
	if digested {
		r.header.Set(digestHeader, formatDigest(sent.sha256))
	}
	var attempts []*sentBody
	r.length = length
	r.body = func() (io.Reader, error) {
		if n := len(attempts); n > 0 {
			attempts[n-1].stop(true)
		}
		b := newSentBody(content, offset, length, p)
		attempts = append(attempts, b)
		return b, nil
	}
	for attempt := 1; ; attempt++ {
		h, err = c.call(ctx, r, nil)
		damage := damaged(r, h, err, checksum.ETag(length, sent.crc))
		if damage == nil {
			break
		}
		now, readErr := sumRange(ctx, content, offset, length, digested)
		if readErr != nil || now.crc != sent.crc || now.sha256 != sent.sha256 {
			err = errors.Join(fmt.Errorf("client: %s: %w", r.name, ErrChanged), readErr)
			break
		}
		if attempt == c.attempts || !c.pause(ctx, attempt, time.Now(), damage) {
			err = fmt.Errorf("client: %w on the way to the server: %w", ErrCorrupt, damage)
			break
		}
	}
	for _, b := range attempts {
		b.stop(err != nil)
	}
	sent.released = released(attempts)
	return sent, h, err
}

// damaged returns an error if the server received other bytes than were sent, which have the ETag
// sent, or nil. A server that sends no ETag for a part compares the whole later.
func damaged(r *request, h http.Header, err error, sent string) error {
	if e, reported := errors.AsType[*Error](err); reported && e.Code == wire.CodeDigestMismatch {
		return err
	}
	// A proxy that compresses responses makes an ETag weak.
	if stored := strings.TrimPrefix(h.Get("ETag"), "W/"); err == nil && r.replaceable && stored != "" && stored != sent {
		return fmt.Errorf("the server has %s and not %s", shown(stored), sent)
	}
	return nil
}

// released waits until net/http has closed the bodies, which it does soon after the last response,
// and reports whether it has: until then it may read the content.
func released(attempts []*sentBody) bool {
	timeout := time.NewTimer(time.Second)
	defer timeout.Stop()
	for _, b := range attempts {
		select {
		case <-b.closed:
		case <-timeout.C:
			return false
		}
	}
	return true
}

// sumRange reads length bytes of content from offset on and returns their checksums; the SHA-256
// only on request. It returns ErrChanged if there are fewer.
func sumRange(ctx context.Context, content io.ReaderAt, offset, length int64, withSHA256 bool) (s sums, err error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	digest := sha256.New()
	for length > 0 {
		if err := context.Cause(ctx); err != nil {
			return sums{}, err
		}
		piece := buffer[:min(length, bufferSize)]
		n, err := content.ReadAt(piece, offset)
		if n < len(piece) {
			return sums{}, endedEarly(err)
		}
		s.crc = checksum.Update(s.crc, piece)
		if withSHA256 {
			_, _ = digest.Write(piece) // a hash returns no error
		}
		offset, length = offset+int64(n), length-int64(n)
	}
	if withSHA256 {
		digest.Sum(s.sha256[:0])
	}
	return s, nil
}
