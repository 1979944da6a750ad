package client

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"sync/atomic"

	"sluice/checksum"
	"sluice/wire"
)

// DownloadOptions are the options of Download and DownloadFile.
type DownloadOptions struct {
	GetOptions

	// RangeSize is the number of bytes in a request. 0 means DefaultRangeSize. If the read is paid,
	// it is rounded up to whole chunksets, so that none is charged twice.
	RangeSize int64

	// Concurrency is the number of ranges that are received concurrently. 0 means
	// DefaultConcurrency.
	Concurrency int

	// Root is the folder to which the path of DownloadFile is relative, and which the file, also
	// through symbolic links, does not leave. If it is nil, the path may name any file.
	Root *os.Root

	// Restore makes DownloadFile set the time of modification and the permissions that the blob's
	// metadata keep: see RestoreFile.
	Restore bool

	// Progress is called with the number of bytes that were received, and with the blob's size. The
	// first call has only the bytes that were on disk if a download is resumed; so does another
	// such call if the download is begun anew, because the blob was replaced. The last call
	// precedes the return. Calls do not overlap; a slow one delays no transfer.
	Progress func(done, total int64)
}

func (o *DownloadOptions) setDefaults() error {
	if o.RangeSize < 0 {
		return fmt.Errorf("client: %w: RangeSize must not be negative", ErrInvalid)
	}
	if o.RangeSize == 0 {
		o.RangeSize = DefaultRangeSize
	}
	if o.Payment != nil {
		o.RangeSize = (min(o.RangeSize, maxBlobSize) + wire.ChunksetSize - 1) / wire.ChunksetSize * wire.ChunksetSize
	}
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	return nil
}

// Download reads a blob in parallel ranges into w. All bytes belong to one version: it returns
// ErrChanged if the blob is replaced during the call. It returns ErrCorrupt if they do not match
// the blob's ETag or SHA-256. In general, w has the whole blob only if there is no error.
//
// A SHA-256 must be computed in order. For a blob of several ranges that has one, w is read again
// if it is also an io.ReaderAt, as an *os.File is, which must be open for reading; otherwise the
// ranges are requested one after another.
func (c *Client) Download(ctx context.Context, account, name string, w io.WriterAt, o DownloadOptions) (Blob, error) {
	if err := o.setDefaults(); err != nil {
		return Blob{}, err
	}
	s, err := c.source(account, name, o.GetOptions)
	if err != nil {
		return Blob{}, err
	}
	d := &download{source: s, options: o, w: w}
	if err := d.begin(ctx); err != nil {
		return Blob{}, err
	}
	if err := d.run(ctx); err != nil {
		return Blob{}, err
	}
	return d.blob, nil
}

// download is the transfer of one blob.
type download struct {
	source  *source
	options DownloadOptions
	w       io.WriterAt
	blob    Blob
	first   *Reader  // of range 0, if it is open already
	cancel  func()   // ends first
	crcs    []uint64 // by range
	present []bool   // the ranges that need not be requested

	// received is called after a range was written. It may be nil. Calls may be concurrent.
	received func(index int, crc uint64) error
}

// begin requests the first range. The response has the blob's properties.
func (d *download) begin(ctx context.Context) error {
	end := d.options.RangeSize
	if d.options.Payment != nil { // so that no more is bought than the blob has
		b, err := d.source.c.head(ctx, d.source.path, d.source.name)
		if err == nil {
			err = d.options.check(b)
		}
		switch {
		case err == nil:
			d.source.etag, end = b.ETag, min(end, b.Size)
		case !isReported(err): // the response to a GET has a problem's details
			return err
		}
	}
	ctx, d.cancel = context.WithCancel(ctx)
	var r *Reader
	err := fmt.Errorf("client: get a blob: %w", ErrRangeInvalid)
	if end > 0 {
		r, err = d.source.reader(ctx, 0, end)
	}
	if errors.Is(err, ErrRangeInvalid) { // the blob is empty, or was when it was requested
		r, err = d.source.reader(ctx, 0, -1)
	}
	if err != nil {
		d.cancel()
		return err
	}
	r.sums = nil // the ranges are verified together
	d.first = r
	if err := d.setBlob(r.blob); err != nil {
		d.closeFirst()
		return err
	}
	return nil
}

// closeFirst ends the request for the first range.
func (d *download) closeFirst() {
	if d.first != nil {
		d.cancel()
		_ = d.first.Close() // it returns nil
		d.first = nil
	}
}

// maxRanges bounds how many ranges a download has. Each takes 17 bytes of memory, and 5 TiB have as
// many of 1 MiB.
const maxRanges = maxBlobSize >> 20

func (d *download) setBlob(b Blob) error {
	n := (b.Size-1)/d.options.RangeSize + 1
	if b.Size == 0 {
		n = 0
	}
	if n > maxRanges {
		return fmt.Errorf("client: download a blob: %w: %d bytes have more than %d ranges of %d; set RangeSize", ErrInvalid, b.Size, maxRanges, d.options.RangeSize)
	}
	d.blob = b
	d.crcs, d.present = make([]uint64, n), make([]bool, n)
	return nil
}

// bounds returns a range's offsets in the blob.
func (d *download) bounds(index int) (begin, end int64) {
	begin = int64(index) * d.options.RangeSize
	return begin, min(d.blob.Size, begin+d.options.RangeSize)
}

// run receives the ranges that are not present, and verifies the whole.
func (d *download) run(ctx context.Context) error {
	defer d.closeFirst()
	p := newProgress(d.options.Progress, d.blob.Size)
	defer p.end()
	var missing []int
	var left int64 // by an earlier call
	for i, present := range d.present {
		begin, end := d.bounds(i)
		if present {
			left += end - begin
		} else {
			missing = append(missing, i)
		}
	}
	p.begin(left)
	concurrency := d.options.Concurrency
	inOrder := d.sumInOrder()
	if inOrder != nil {
		concurrency = 1
	}
	var refused atomic.Pointer[error]
	err := parallel(ctx, concurrency, missing, func(ctx context.Context, i int) error {
		if refused.Load() != nil {
			return nil
		}
		crc, err := d.receive(ctx, i, inOrder, p)
		if d.options.Payment != nil && isUnpaid(err) {
			refused.Store(&err) // the other ranges, which are paid for, are received to their ends
			return nil
		}
		if err != nil {
			if d.first != nil {
				d.cancel() // the context of parallel does not end it
			}
			return err
		}
		d.crcs[i] = crc
		if d.received != nil {
			return d.received(i, crc)
		}
		return nil
	})
	if unpaid := refused.Load(); err == nil && unpaid != nil {
		err = *unpaid
	}
	if err != nil || d.options.SkipVerify {
		return err
	}
	return d.verify(ctx, inOrder)
}

// isReported reports whether the server has reported the error.
func isReported(err error) bool {
	_, reported := errors.AsType[*Error](err)
	return reported
}

// isUnpaid reports whether a read failed because it was not paid for, so that paid ones may
// succeed.
func isUnpaid(err error) bool {
	return errors.Is(err, ErrPaymentRequired) || errors.Is(err, ErrBudget) || errors.Is(err, ErrTermsChanged) || errors.Is(err, ErrNotDelivered)
}

// sumInOrder returns a SHA-256 to which the ranges must be added in order, or nil if there is none
// to verify or if the whole can be read again.
func (d *download) sumInOrder() hash.Hash {
	if d.options.SkipVerify || d.blob.SHA256 == nil {
		return nil
	}
	if _, readable := d.w.(io.ReaderAt); readable && len(d.crcs) > 1 {
		return nil
	}
	return sha256.New()
}

// receive requests a range and writes it. It returns its CRC.
func (d *download) receive(ctx context.Context, index int, inOrder hash.Hash, p *progress) (crc uint64, err error) {
	begin, end := d.bounds(index)
	r := d.first
	if index > 0 || r == nil {
		if r, err = d.source.reader(ctx, begin, end); err != nil {
			return 0, err
		}
		r.sums = nil                     // the ranges are verified together
		defer func() { _ = r.Close() }() // it returns nil
	}
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	for offset := begin; offset < end; {
		n, err := io.ReadFull(r, buffer[:min(bufferSize, end-offset)])
		if err != nil {
			return 0, err
		}
		piece := buffer[:n]
		crc = checksum.Update(crc, piece)
		if inOrder != nil {
			_, _ = inOrder.Write(piece) // a hash returns no error
		}
		if _, err := d.w.WriteAt(piece, offset); err != nil {
			return 0, fmt.Errorf("client: download a blob: %w", err)
		}
		offset += int64(n)
		p.add(int64(n))
	}
	return crc, nil
}

// verify returns ErrCorrupt if the received bytes are not the blob's.
func (d *download) verify(ctx context.Context, inOrder hash.Hash) error {
	var whole checksum.Combiner
	var crc uint64
	for i, part := range d.crcs {
		begin, end := d.bounds(i)
		crc = whole.Combine(crc, part, end-begin)
	}
	if err := checkContent(d.blob, d.blob.Size, crc); err != nil || d.blob.SHA256 == nil {
		return err
	}
	if inOrder != nil {
		return checkSHA256(d.blob, inOrder.Sum(nil))
	}
	s, err := sumRange(ctx, d.w.(io.ReaderAt), 0, d.blob.Size, true)
	if err != nil {
		return fmt.Errorf("client: download a blob: the written bytes cannot be read: %w", err)
	}
	return checkSHA256(d.blob, s.sha256[:])
}
