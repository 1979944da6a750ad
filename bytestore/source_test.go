package bytestore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/bytestore"
	"sluice/test/testenv"
)

func TestSource(t *testing.T) {
	broken := errors.New("broken")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		src  io.Reader
		size int64
		want string
		err  error
	}{
		{"exact", t.Context(), strings.NewReader("abcdefghij"), 10, "abcdefghij", nil},
		{"exact multiple of the buffer", t.Context(), strings.NewReader("abcdefgh"), 8, "abcdefgh", nil},
		{"end with the last bytes", t.Context(), iotest.DataErrReader(strings.NewReader("abcdefgh")), 8, "abcdefgh", nil},
		{"one byte at a time", t.Context(), iotest.OneByteReader(strings.NewReader("abcdefghij")), 10, "abcdefghij", nil},
		{"unknown size", t.Context(), strings.NewReader("abcdef"), bytestore.UnknownSize, "abcdef", nil},
		{"empty", t.Context(), strings.NewReader(""), 0, "", nil},
		{"negative size", t.Context(), strings.NewReader(""), -2, "", bytestore.ErrSize},
		{"too short", t.Context(), strings.NewReader("abcdef"), 7, "abcd", bytestore.ErrSize},
		{"too long", t.Context(), strings.NewReader("abcdef"), 5, "abcd", bytestore.ErrSize},
		{"more than nothing", t.Context(), strings.NewReader("a"), 0, "", bytestore.ErrSize},
		{"failing", t.Context(), io.MultiReader(strings.NewReader("abcd"), iotest.ErrReader(broken)), 8, "abcd", broken},
		{"unexpected EOF of its own", t.Context(), iotest.ErrReader(io.ErrUnexpectedEOF), 8, "", io.ErrUnexpectedEOF},
		{"wrapped EOF of its own", t.Context(), iotest.ErrReader(fmt.Errorf("cut: %w", io.EOF)), 8, "", io.EOF},
		{"no progress", t.Context(), emptyReader{}, 8, "", io.ErrNoProgress},
		{"ended context", ended, strings.NewReader("abcd"), 4, "", context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []byte
			var buf [4]byte
			s, err := bytestore.NewSource(tc.ctx, tc.src, tc.size)
			for end := false; !end && err == nil; {
				var n int
				n, end, err = s.Fill(buf[:], nil)
				got = append(got, buf[:n]...)
			}
			if string(got) != tc.want || !errors.Is(err, tc.err) || tc.err == nil && err != nil {
				t.Fatalf("read %q and the error %v, want %q and %v", got, err, tc.want, tc.err)
			}
		})
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

func TestSourceReportsProgress(t *testing.T) {
	s, err := bytestore.NewSource(t.Context(), iotest.OneByteReader(strings.NewReader("abcdef")), 6)
	testenv.OK(t, err)
	reads := 0
	if n, _, err := s.Fill(make([]byte, 4), func() { reads++ }); n != 4 || err != nil || reads != 4 {
		t.Fatalf("%d bytes, error %v, progress reported %d times", n, err, reads)
	}
}

func TestReadFull(t *testing.T) {
	broken := errors.New("broken")
	for _, tc := range []struct {
		name string
		r    io.Reader
		n    int
		err  error
	}{
		{"whole", strings.NewReader("abcd"), 4, nil},
		{"longer", strings.NewReader("abcdef"), 4, nil},
		{"end with the last byte", iotest.DataErrReader(strings.NewReader("abcd")), 4, nil},
		{"shorter", strings.NewReader("abc"), 3, bytestore.ErrTruncated},
		{"empty", strings.NewReader(""), 0, bytestore.ErrTruncated},
		{"broken", io.MultiReader(strings.NewReader("a"), iotest.ErrReader(broken)), 1, broken},
		{"broken connection", iotest.ErrReader(io.ErrUnexpectedEOF), 0, io.ErrUnexpectedEOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if n, err := bytestore.ReadFull(tc.r, make([]byte, 4)); n != tc.n || !errors.Is(err, tc.err) || tc.err == nil && err != nil {
				t.Fatalf("%d bytes and the error %v, want %d and %v", n, err, tc.n, tc.err)
			}
		})
	}
}
