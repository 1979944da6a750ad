package integrity

import (
	"errors"
	"fmt"
	"io"

	"sluice/metastore"
)

// CheckObject returns a reader that compares each block of an extent's object with its checksum.
// src must read the object from its start. Read returns ErrCorrupt in place of the last bytes in
// the first block that does not match, and if src ends early; it returns other errors of src
// unchanged.
func CheckObject(src io.Reader, e metastore.Extent) io.Reader {
	return &objectChecker{src: src, remaining: e.Size, sums: e.Blocks}
}

type objectChecker struct {
	src       io.Reader
	remaining int64    // bytes until the extent ends
	sums      []uint32 // checksums of this and the later blocks
	blockRead int64    // bytes read from the current block
	blockSum  uint32   // checksum of these bytes
}

// Read implements io.Reader.
func (r *objectChecker) Read(p []byte) (int, error) {
	if r.remaining == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.remaining, BlockSize-r.blockRead)]
	n, err := r.src.Read(p)
	r.blockSum = UpdateSum(r.blockSum, p[:n])
	r.remaining, r.blockRead = r.remaining-int64(n), r.blockRead+int64(n)
	if r.remaining == 0 || r.blockRead == BlockSize {
		if len(r.sums) == 0 || r.sums[0] != r.blockSum {
			return 0, fmt.Errorf("%w: the block that ends %d bytes before the end does not match its checksum", ErrCorrupt, r.remaining)
		}
		r.sums, r.blockRead, r.blockSum = r.sums[1:], 0, 0
	}
	if errors.Is(err, io.EOF) {
		if r.remaining > 0 {
			return n, fmt.Errorf("%w: the object ends %d bytes too early", ErrCorrupt, r.remaining)
		}
		err = nil // the next Read returns io.EOF
	}
	return n, err
}

// CheckInline returns ErrCorrupt unless an inline extent has its body, and the body its checksum.
func CheckInline(e metastore.Extent) error {
	e.Object = "that is inline"
	if err := CheckExtent(&e); err != nil {
		return err
	}
	if int64(len(e.Body)) != e.Size {
		return fmt.Errorf("%w: the body has %d bytes, and its extent %d", ErrCorrupt, len(e.Body), e.Size)
	}
	if Sum(e.Body) != e.Blocks[0] {
		return fmt.Errorf("%w: the body does not match its checksum", ErrCorrupt)
	}
	return nil
}
