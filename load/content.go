package load

import (
	"io"
	"math/rand/v2"
	"sync"
)

// noise returns the bytes from which contents are made. They cannot be compressed.
var noise = sync.OnceValue(makeNoise)

// noiseSize is noise's length. It is a prime, so contents that begin at a small number's multiples
// differ.
const noiseSize = 1<<20 + 7

func makeNoise() []byte {
	b := make([]byte, noiseSize)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it returns no error
	return b
}

// Content is a content of Size bytes: noise, repeated as often as needed, from a place that Seed
// selects.
type Content struct {
	Size int64
	Seed int64
}

// Piece returns the content's bytes from an offset: at least one, and at most limit. They must not
// be changed.
func (c Content) Piece(offset, limit int64) []byte {
	begin := int64((uint64(c.Seed)*4099 + uint64(offset)) % noiseSize)
	return noise()[begin:min(noiseSize, begin+min(limit, c.Size-offset))]
}

// ReadAt implements io.ReaderAt.
func (c Content) ReadAt(b []byte, offset int64) (n int, err error) {
	for n < len(b) {
		if offset >= c.Size {
			return n, io.EOF
		}
		copied := copy(b[n:], c.Piece(offset, int64(len(b)-n)))
		n, offset = n+copied, offset+int64(copied)
	}
	return n, nil
}

func (c Content) reader() *io.SectionReader { return io.NewSectionReader(c, 0, c.Size) }
