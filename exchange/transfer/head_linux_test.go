package transfer

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"
	"testing"

	"sluice/internal/httpconn"
	"sluice/test/testenv"
)

// positioned is a file that is read from an offset of its own. It counts the reads.
type positioned struct {
	*io.SectionReader
	file  *os.File
	reads int
}

func (p *positioned) Read(b []byte) (int, error) {
	p.reads++
	return p.SectionReader.Read(b)
}

func (p *positioned) Position() (syscall.RawConn, int64) {
	offset, err := p.Seek(0, io.SeekCurrent)
	raw, connErr := p.file.SyscallConn()
	if err != nil || connErr != nil {
		return nil, 0
	}
	return raw, offset
}

// TestFileFollowsItsHead sends a file, after its status and headers, over one connection. If the
// body's length is declared and nothing wraps the response, nothing is written before the file is
// sent, and none of it is read. The bytes that were sent are counted.
func TestFileFollowsItsHead(t *testing.T) {
	for _, c := range []struct {
		name              string
		declared, wrapped bool
	}{{"declared", true, false}, {"wrapped", true, true}, {"chunked", false, false}} {
		t.Run(c.name, func(t *testing.T) {
			const size = 2<<20 + 123
			f, content := testFile(t, size)
			server := adopted(t, func(w http.ResponseWriter, r *http.Request, conn *httpconn.Conn) {
				out := newWriter(w, Options{Rate: DefaultMinRate, Context: r.Context(), Conn: conn})
				if c.wrapped {
					out.Wrap(func(w http.ResponseWriter) http.ResponseWriter { return w })
				}
				if c.declared {
					out.Header().Set("Content-Length", strconv.Itoa(size))
				}
				out.WriteHeader(http.StatusOK)
				before := conn.Sent()
				p := &positioned{SectionReader: io.NewSectionReader(f, 0, size), file: f}
				n, err := out.ReadFrom(&io.LimitedReader{R: p, N: size})
				if n != size || err != nil || out.Written() != size {
					t.Errorf("%d bytes were sent, and %d counted, %v", n, out.Written(), err)
				}
				testenv.Equal(t, p.reads == 0, c.declared && !c.wrapped, "whether nothing was read")
				if c.declared {
					testenv.Equal(t, conn.Sent()-before > size, true, "whether the head and all of the body were sent")
					testenv.Equal(t, out.Unsent(), 0, "unsent bytes")
				}
				testenv.Check(t, out.Done())
			})
			for range 2 { // the second response follows the first one's bytes
				r := testenv.Must(server.Client().Get(server.URL))(t)
				body, err := io.ReadAll(r.Body)
				testenv.OK(t, err)
				testenv.OK(t, r.Body.Close())
				if !bytes.Equal(body, content) {
					t.Fatalf("the client received %d bytes, want %d", len(body), size)
				}
			}
		})
	}
}
