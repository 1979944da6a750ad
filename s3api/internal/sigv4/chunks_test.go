package sigv4

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"sluice/test/testenv"
)

// sent is a signed request with its body as it is on the wire.
type sent struct {
	r    *http.Request
	wire []byte
}

// request returns a request that is not signed yet.
func request(t testing.TB, body []byte, trailer bool) *http.Request {
	t.Helper()
	r := testenv.Must(http.NewRequestWithContext(t.Context(), "PUT", "http://localhost/bucket/key", io.NopCloser(bytes.NewReader(body))))(t)
	if trailer {
		r.Trailer = http.Header{"X-Amz-Checksum-Crc32c": {"wdBDMA=="}}
	}
	return r
}

// signedInChunks returns a request that minio-go has signed in chunks, with a trailer or without.
func signedInChunks(t testing.TB, body []byte, trailer bool) sent {
	t.Helper()
	r := request(t, body, trailer)
	r = signer.StreamingSignV4(r, "key", "secret", "", "region", int64(len(body)), time.Now().UTC(), hasher{sha256.New()})
	r.Host = r.URL.Host
	wire := testenv.Must(io.ReadAll(r.Body))(t)
	return sent{r, wire}
}

// hasher is a SHA-256 for minio-go.
type hasher struct{ hash.Hash }

func (hasher) Close() {}

// randomBytes returns n bytes that depend on n.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	random := rand.New(rand.NewPCG(uint64(n), 0))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

func (s sent) chain(t testing.TB) *Chain {
	t.Helper()
	signature := testenv.Must(Parse(s.r, nil))(t)
	return testenv.Must(signature.Verify(s.r, nil, "secret", time.Now()))(t)
}

// unsigned returns a body in chunks of random sizes, with a trailer.
func unsigned(body []byte) []byte {
	random := rand.New(rand.NewPCG(uint64(len(body)), 1))
	var wire bytes.Buffer
	for len(body) > 0 {
		n := min(leastChunk+random.IntN(len(body)), len(body))
		fmt.Fprintf(&wire, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	wire.WriteString("0\r\nx-amz-checksum-crc32c:wdBDMA==\r\n\r\n")
	return wire.Bytes()
}

// forms are the ways in which a body is sent.
func forms(t testing.TB, body []byte) map[string]func() (wire []byte, o ChunkOptions) {
	return map[string]func() ([]byte, ChunkOptions){
		"signed": func() ([]byte, ChunkOptions) {
			s := signedInChunks(t, body, false)
			return s.wire, ChunkOptions{Size: int64(len(body)), Chain: s.chain(t), Signed: true}
		},
		"signed, with a trailer": func() ([]byte, ChunkOptions) {
			s := signedInChunks(t, body, true)
			return s.wire, ChunkOptions{Size: int64(len(body)), Chain: s.chain(t), Signed: true, Trailer: true}
		},
		"signed, and not verified": func() ([]byte, ChunkOptions) {
			return signedInChunks(t, body, true).wire, ChunkOptions{Size: int64(len(body)), Signed: true, Trailer: true}
		},
		"unsigned, with a trailer": func() ([]byte, ChunkOptions) {
			return unsigned(body), ChunkOptions{Size: int64(len(body)), Trailer: true}
		},
		"unsigned, by minio-go": func() ([]byte, ChunkOptions) {
			r := request(t, body, true)
			r = signer.StreamingUnsignedV4(r, "", int64(len(body)), time.Now().UTC())
			return testenv.Must(io.ReadAll(r.Body))(t), ChunkOptions{Size: int64(len(body)), Trailer: true}
		},
	}
}

// TestBodies reads bodies of several sizes in each form, from sources that return few bytes.
func TestBodies(t *testing.T) {
	for _, size := range []int{0, 1, 100, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200_000} {
		body := randomBytes(size)
		for form, send := range forms(t, body) {
			for name, slow := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader, "the end with data": iotest.DataErrReader,
			} {
				wire, o := send()
				r := NewChunkReader(slow(bytes.NewReader(wire)), o)
				got, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(got, body) {
					t.Errorf("%s, %d bytes, %s: %d bytes, %v", form, size, name, len(got), err)
				}
				if o.Trailer && r.Trailer()["x-amz-checksum-crc32c"] != "wdBDMA==" || len(r.Trailer()) > 1 {
					t.Errorf("%s, %d bytes, %s: the trailer is %v", form, size, name, r.Trailer())
				}
			}
		}
	}
}

// TestDamagedBodies cuts a body at each byte and changes each bit: the reader must never report
// that it is complete, except after a change that means the same.
func TestDamagedBodies(t *testing.T) {
	body := []byte("The body of a blob.")
	for form, send := range forms(t, body) {
		whole, _ := send()
		for at := range whole {
			wire, o := send()
			cut := wire[:at]
			if _, err := io.ReadAll(NewChunkReader(bytes.NewReader(cut), o)); err == nil && !bytes.Equal(bytes.TrimRight(cut, "\r\n"), bytes.TrimRight(wire, "\r\n")) {
				t.Errorf("%s: the first %d of %d bytes are a whole body", form, at, len(wire))
			}
			for bit := range 8 {
				wire, o := send()
				before := bytes.Clone(wire)
				wire[at] ^= 1 << bit
				r := NewChunkReader(bytes.NewReader(wire), o)
				got, err := io.ReadAll(r)
				// Without signatures the checksum in the trailer protects it.
				if err == nil && o.Chain != nil && (!bytes.Equal(got, body) || !bytes.EqualFold(before, wire)) {
					t.Errorf("%s: byte %d, bit %d: %q is accepted, trailer %v", form, at, bit, wire, r.Trailer())
				}
			}
		}
	}
}

// TestRefusedBodies checks bodies that break a rule each.
func TestRefusedBodies(t *testing.T) {
	for name, c := range map[string]struct {
		wire string
		o    ChunkOptions
		want error
	}{
		"shorter than announced":           {"1\r\na\r\n0\r\n\r\n", ChunkOptions{Size: 2}, ErrBody},
		"longer than announced":            {"2\r\nab\r\n0\r\n\r\n", ChunkOptions{Size: 1}, ErrBody},
		"a chunk is longer than it states": {"1\r\nab\r\n0\r\n\r\n", ChunkOptions{Size: 2}, ErrBody},
		"no size":                          {"\r\n", ChunkOptions{}, ErrBody},
		"a negative size":                  {"-1\r\n", ChunkOptions{}, ErrBody},
		"a size with a sign":               {"+1\r\na\r\n0\r\n\r\n", ChunkOptions{Size: 1}, ErrBody},
		"a size of many digits":            {"000000000001\r\na\r\n0\r\n\r\n", ChunkOptions{Size: 1}, ErrBody},
		"a huge size":                      {"ffffffffffffffff\r\n", ChunkOptions{Size: 1 << 62}, ErrBody},
		"an unknown extension":             {"1;a=b\r\na\r\n0\r\n\r\n", ChunkOptions{Size: 1}, ErrBody},
		"a signature nobody asked for":     {"0;chunk-signature=" + strings.Repeat("0", 64) + "\r\n\r\n", ChunkOptions{}, ErrBody},
		"a long line":                      {strings.Repeat("0", 300), ChunkOptions{}, ErrBody},
		"something after the end":          {"0\r\n\r\n0", ChunkOptions{}, ErrBody},
		"many lines after the end":         {"0\r\n\r\n\r\n\r\n", ChunkOptions{}, ErrBody},
		"a trailer nobody announced":       {"0\r\na:b\r\n\r\n", ChunkOptions{}, ErrBody},
		"a field twice":                    {"0\r\na:b\r\na:c\r\n\r\n", ChunkOptions{Trailer: true}, ErrBody},
		"a trailer without a colon":        {"0\r\na\r\n\r\n", ChunkOptions{Trailer: true}, ErrBody},
		"a long trailer":                   {"0\r\na:" + strings.Repeat("b", mostTrailer) + "\r\n\r\n", ChunkOptions{Trailer: true}, ErrBody},
		"many fields":                      {"0\r\n" + strings.Repeat("a:b\r\n", mostTrailer) + "\r\n", ChunkOptions{Trailer: true}, ErrBody},
		"nothing":                          {"", ChunkOptions{}, io.ErrUnexpectedEOF},
		"no end":                           {"1\r\na\r\n", ChunkOptions{Size: 1}, io.ErrUnexpectedEOF},
		"no end of the trailer":            {"0\r\na:b\r\n", ChunkOptions{Trailer: true}, io.ErrUnexpectedEOF},
	} {
		_, err := io.ReadAll(NewChunkReader(strings.NewReader(c.wire), c.o))
		testenv.Is(t, err, c.want, "%s", name)
	}
	// Chunks and trailers of another request, or in another order, have other signatures.
	body := randomBytes(150_000)
	s, other := signedInChunks(t, body, true), signedInChunks(t, body[1:], true)
	first := bytes.Index(s.wire[64<<10:], []byte("10000;")) + 64<<10
	for name, wire := range map[string][]byte{
		"another body":         other.wire,
		"the first chunk only": append(bytes.Clone(s.wire[:first]), s.wire[bytes.LastIndex(s.wire, []byte("\r\n0;"))+2:]...),
		"without the first":    s.wire[first:],
	} {
		_, err := io.ReadAll(NewChunkReader(bytes.NewReader(wire), ChunkOptions{Size: 1 << 30, Chain: s.chain(t), Signed: true, Trailer: true}))
		testenv.Is(t, err, ErrChunk, "%s", name)
	}
	wrong := bytes.Replace(s.wire, []byte("wdBDMA=="), []byte("wdBDMB=="), 1)
	_, err := io.ReadAll(NewChunkReader(bytes.NewReader(wrong), ChunkOptions{Size: int64(len(body)), Chain: s.chain(t), Signed: true, Trailer: true}))
	testenv.Is(t, err, ErrChunk, "another trailer")
	without := append(bytes.Clone(s.wire[:bytes.Index(s.wire, []byte("x-amz-trailer-signature"))]), "\r\n"...)
	_, err = io.ReadAll(NewChunkReader(bytes.NewReader(without), ChunkOptions{Size: int64(len(body)), Chain: s.chain(t), Signed: true, Trailer: true}))
	testenv.Is(t, err, io.ErrUnexpectedEOF, "a trailer without its signature")
}

// FuzzChunkReader reads any body: it must not panic, must return at most the announced size, and
// exactly that before io.EOF.
func FuzzChunkReader(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\nx-amz-checksum-crc32c:wdBDMA==\r\n\r\n"), int64(3), true)
	f.Add([]byte("0;chunk-signature=\r\n\r\n"), int64(0), false)
	f.Fuzz(func(t *testing.T, wire []byte, size int64, trailer bool) {
		size = max(0, size)
		n, err := io.Copy(io.Discard, NewChunkReader(bytes.NewReader(wire), ChunkOptions{Size: size, Trailer: trailer}))
		if n > size || err == nil && n != size {
			t.Errorf("%d of %d bytes, %v", n, size, err)
		}
		if err != nil && !errors.Is(err, ErrBody) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the error is %v", err)
		}
	})
}
