package s3api

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"sluice/blob"
)

// sha256Reader compares a body's SHA-256 at its end.
type sha256Reader struct {
	io.Reader
	sum  hash.Hash // nil: nothing is compared
	want []byte
}

func newSHA256(want []byte) hash.Hash {
	if want == nil {
		return nil
	}
	return sha256.New()
}

// Read implements io.Reader. It returns blob.ErrDigestMismatch at the end of another body.
func (r *sha256Reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.sum == nil {
		return n, err
	}
	r.sum.Write(p[:n])
	if errors.Is(err, io.EOF) && !bytes.Equal(r.sum.Sum(nil), r.want) {
		err = blob.ErrDigestMismatch
	}
	return n, err
}
