package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"sluice/checksum"
	"sluice/wire"
)

// upload is a multipart upload that this client has begun.
type upload struct {
	c        *Client
	id       string
	path     string // escaped
	name     string
	partSize int64
	options  *PutOptions
	progress *progress

	// check is called before the upload is completed. If it returns an error, it is not. It may be
	// nil.
	check func() error

	// stored is the ETag that the blob has, if the upload was committed by an earlier call.
	stored string
}

// errStored is returned if a committed upload, or the blob that it stored, has other bytes.
var errStored = errors.New("the upload was completed with other bytes, or its blob was replaced")

// beginUpload begins an upload. If the response is lost, it begins another: the first expires.
func (c *Client) beginUpload(ctx context.Context, account, name string, partSize int64, o *PutOptions, p *progress) (*upload, error) {
	if !utf8.ValidString(account) || !utf8.ValidString(name) { // JSON would have other characters
		return nil, fmt.Errorf("client: begin an upload: %w: the account or the name of the blob is not valid UTF-8", ErrInvalid)
	}
	r := newRequest("begin an upload", http.MethodPost, "/v1/multipart-uploads", idempotent)
	if err := r.setJSON(o.beginJSON(account, name, partSize)); err != nil {
		return nil, err
	}
	var begun wire.UploadBegun
	r.check = func() error { return checkID("uploadId", begun.UploadID) }
	if _, err := c.call(ctx, r, &begun); err != nil {
		return nil, err
	}
	return c.existingUpload(begun.UploadID, name, partSize, o, p), nil
}

func (c *Client) existingUpload(id, name string, partSize int64, o *PutOptions, p *progress) *upload {
	return &upload{c: c, id: id, path: "/v1/multipart-uploads/" + url.PathEscape(id), name: name, partSize: partSize, options: o, progress: p}
}

// parts returns the number of parts of size bytes.
func (u *upload) parts(size int64) int { return int((size + u.partSize - 1) / u.partSize) }

// partLength returns a part's length if the whole has size bytes.
func (u *upload) partLength(index int, size int64) int64 {
	return min(u.partSize, size-int64(index)*u.partSize)
}

// has reports whether a part of the whole, which has size bytes, is among those that are present at
// the server, by index.
func (u *upload) has(present map[int]int64, index int, size int64) bool {
	length, found := present[index]
	return found && length == u.partLength(index, size)
}

// sendSection sends the parts of content and completes the upload. Parts that are present at the
// server, by index, are read only for their checksum.
func (u *upload) sendSection(ctx context.Context, content *io.SectionReader, present map[int]int64) (Blob, error) {
	size := content.Size()
	n := u.parts(size)
	if size > maxBlobSize || n > maxParts {
		return Blob{}, tooLarge(u.partSize)
	}
	crcs := make([]uint64, n)
	indexes := make([]int, n)
	for i := range indexes {
		indexes[i] = i
	}
	err := parallel(ctx, u.options.concurrency(), indexes, func(ctx context.Context, i int) error {
		offset, length := int64(i)*u.partSize, u.partLength(i, size)
		if u.has(present, i, size) {
			s, err := sumRange(ctx, content, offset, length, false)
			crcs[i] = s.crc
			return err
		}
		s, err := u.sendPart(ctx, i, content, offset, length)
		crcs[i] = s.crc
		return err
	})
	if err == nil && u.check != nil {
		err = u.check()
	}
	if err != nil {
		return Blob{}, err
	}
	return u.complete(ctx, size, u.combine(crcs, size))
}

// combine returns the content's CRC from the parts' CRCs.
func (u *upload) combine(crcs []uint64, size int64) uint64 {
	var whole checksum.Combiner
	var crc uint64
	for i, part := range crcs {
		crc = whole.Combine(crc, part, u.partLength(i, size))
	}
	return crc
}

// state returns the upload's state and the sizes of its parts by index. A committed upload has
// none.
func (u *upload) state(ctx context.Context) (state string, present map[int]int64, err error) {
	r := newRequest("get an upload", http.MethodGet, u.path, readOnly)
	present = map[int]int64{}
	for after := -1; ; {
		var page wire.UploadStatus
		r.check = func() error { return checkParts(&page, after) }
		if _, err := u.c.call(ctx, r, &page); err != nil {
			return "", nil, err
		}
		for _, part := range page.Parts {
			present[part.Index] = part.Size
		}
		if page.Next == nil {
			return page.State, present, nil
		}
		after = *page.Next
		r.query.Set("after", strconv.Itoa(after))
	}
}

// sendPart sends a part, without a SHA-256: the part's ETag in the response shows whether it was
// damaged on the way, and complete compares the whole before it makes the blob visible.
func (u *upload) sendPart(ctx context.Context, index int, content io.ReaderAt, offset, length int64) (sums, error) {
	r := newRequest("send a part", http.MethodPut, u.path+"/parts/"+strconv.Itoa(index), idempotent)
	r.replaceable = true
	s, _, err := u.c.sendRange(ctx, r, "", content, offset, length, u.progress)
	return s, err
}

// complete makes the blob visible, if the server has exactly the bytes with this size and CRC. It
// may be repeated: the server records the outcome.
func (u *upload) complete(ctx context.Context, size int64, crc uint64) (Blob, error) {
	etag := checksum.ETag(size, crc)
	if u.stored != "" && u.stored != etag {
		return Blob{}, fmt.Errorf("client: complete an upload: %w", errStored)
	}
	r := newRequest("complete an upload", http.MethodPost, u.path+"/complete", idempotent)
	if err := r.setJSON(wire.CompleteUpload{TotalBytes: &size, ETag: &etag}); err != nil {
		return Blob{}, err
	}
	u.options.setConditions(r)
	h, err := u.c.call(ctx, r, nil)
	if err != nil {
		return Blob{}, err
	}
	b, err := parseBlob(u.name, h, size)
	if err != nil {
		return Blob{}, r.failed(err)
	}
	u.options.describe(&b, size)
	return b, checkStored(b.ETag, etag)
}

// abortTimeout limits how long a failed transfer takes to abort its upload.
const abortTimeout = 10 * time.Second

// abort aborts the upload, even if the context has ended. The transfer has failed already, so an
// error is only logged: the server aborts the upload later by itself.
func (u *upload) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if err := u.c.AbortUpload(ctx, u.id); err != nil {
		u.c.log.WarnContext(ctx, "A failed upload was not aborted.", "error", err)
	}
}

func tooLarge(partSize int64) error {
	if largest := maxParts * partSize; largest < maxBlobSize {
		return fmt.Errorf("client: %w: %d parts of %d bytes, the most that are possible, have %d bytes", ErrTooLarge, maxParts, partSize, largest)
	}
	return fmt.Errorf("client: %w: it has more than %d bytes", ErrTooLarge, int64(maxBlobSize))
}

// checkParts returns an error unless page has parts after an index.
func checkParts(page *wire.UploadStatus, after int) error {
	if err := checkWord("state", page.State, maxWord); err != nil {
		return err
	}
	if n := len(page.Parts); n > wire.MaxPageSize {
		return invalid("parts", "has %d entries, more than %d", n, wire.MaxPageSize)
	}
	for _, part := range page.Parts {
		if part.Index <= after || part.Index >= maxParts {
			return invalid("index", "is %d, and must be above %d and below %d", part.Index, after, maxParts)
		}
		if err := checkSize("size", part.Size, maxPartSize); err != nil {
			return err
		}
		after = part.Index
	}
	if page.Next != nil && (len(page.Parts) == 0 || *page.Next != after) {
		return invalid("next", "is %d, and not the index of the last part of the page", *page.Next)
	}
	return nil
}
