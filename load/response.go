package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strconv"
)

// head has the fields of a response's status line and header that matter here.
type head struct {
	status  int
	length  int64 // the body's, or a value below
	close   bool  // reports whether the server closes the connection after the response
	problem bool  // reports whether the body is an error in JSON
}

// The lengths of bodies that are not known from the header.
const (
	untilClose = -1
	chunked    = -2
)

// maxHeaderLines is the number of lines that a header may have.
const maxHeaderLines = 256

// readHead reads a final response's head (RFC 9112, sections 4 to 6); it skips 1xx responses.
// method is the request's.
func readHead(r *bufio.Reader, method string) (head, error) {
	for {
		h, err := readOneHead(r)
		if err != nil {
			return h, err
		}
		if h.status >= 200 {
			if method == "HEAD" || h.status == 204 || h.status == 304 {
				h.length = 0
			}
			h.close = h.close || h.length == untilClose
			return h, nil
		}
		if h.status == 101 {
			return h, fmt.Errorf("%w: status 101", errMalformed)
		}
	}
}

func readOneHead(r *bufio.Reader) (head, error) {
	h := head{length: untilClose}
	line, err := readLine(r)
	if err != nil {
		return h, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return h, fmt.Errorf("%w: the status line is %.40q", errMalformed, line)
	}
	for _, digit := range line[9:12] {
		if digit < '0' || digit > '9' {
			return h, fmt.Errorf("%w: the status line is %.40q", errMalformed, line)
		}
		h.status = 10*h.status + int(digit-'0')
	}
	if h.status < 100 {
		return h, fmt.Errorf("%w: the status is %d", errMalformed, h.status)
	}
	h.close = line[7] == '0'
	for range maxHeaderLines {
		line, err = readLine(r)
		if err != nil {
			return h, unexpectedEnd(err)
		}
		if len(line) == 0 {
			return h, nil
		}
		if err := h.field(line); err != nil {
			return h, err
		}
	}
	return h, fmt.Errorf("%w: the header has more than %d lines", errMalformed, maxHeaderLines)
}

// field parses a header line, and keeps its value if it matters.
func (h *head) field(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || len(name) == 0 {
		return fmt.Errorf("%w: a line of the header is %.40q", errMalformed, line)
	}
	value = bytes.TrimSpace(value)
	switch {
	case len(name) == len("Content-Length") && equalFold(name, "content-length"):
		n, err := strconv.ParseUint(string(value), 10, 63)
		if err != nil || h.length >= 0 && h.length != int64(n) {
			return fmt.Errorf("%w: Content-Length: %.40q", errMalformed, value)
		}
		if h.length != chunked {
			h.length = int64(n)
		}
	case len(name) == len("Transfer-Encoding") && equalFold(name, "transfer-encoding"):
		if !equalFold(value, "chunked") {
			return fmt.Errorf("%w: Transfer-Encoding: %.40q", errMalformed, value)
		}
		h.length = chunked
	case len(name) == len("Connection") && equalFold(name, "connection"):
		h.close = h.close && !equalFold(value, "keep-alive") || equalFold(value, "close")
	case len(name) == len("Content-Type") && equalFold(name, "content-type"):
		h.problem = bytes.HasPrefix(value, []byte("application/problem+json"))
	}
	return nil
}

// equalFold reports whether b is lower, which is in lower case ASCII, in any case.
func equalFold(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}

// readLine reads a line, and returns it without its end. It is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: a line of the header is too long", errMalformed)
	case err != nil && len(line) > 0:
		return nil, unexpectedEnd(err)
	case err != nil:
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func bodyReader(r *bufio.Reader, h head) io.Reader {
	switch h.length {
	case untilClose:
		return r
	case chunked:
		return &chunkedBody{r: r, chunks: httputil.NewChunkedReader(r)}
	default:
		return io.LimitReader(r, h.length)
	}
}

// chunkedBody reads a chunked body and the trailer after it, so that the next response follows.
type chunkedBody struct {
	r      *bufio.Reader
	chunks io.Reader
	ended  bool // reports whether the trailer was read
}

// Read implements io.Reader.
func (b *chunkedBody) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	n, err := b.chunks.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	for range maxHeaderLines {
		line, err := readLine(b.r)
		if err != nil {
			return n, unexpectedEnd(err)
		}
		if len(line) == 0 {
			b.ended = true
			return n, io.EOF
		}
	}
	return n, fmt.Errorf("%w: the trailer has more than %d lines", errMalformed, maxHeaderLines)
}
