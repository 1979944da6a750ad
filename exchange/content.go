package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"sluice/blob"
	"sluice/checksum"
	"sluice/exchange/headers"
	"sluice/metastore"
)

// Clock is the clock by which blobs are dated.
type Clock interface{ Now() time.Time }

// Precondition returns a write's conditions, or nil if there are none. failed is the error if they
// do not hold.
func Precondition(c headers.Conditions, clock Clock, failed error) metastore.Precondition {
	if !c.Any() {
		return nil
	}
	now := clock.Now() // a precondition must be a pure function
	return func(current *metastore.Blob) error {
		var v *headers.Validators
		if current == metastore.VersionGoes {
			return nil
		}
		if current != nil {
			is := ValidatorsOf(current, now)
			v = &is
		}
		if c.ForWrite(v) == headers.ConditionFailed {
			return failed
		}
		return nil
	}
}

// ValidatorsOf returns a blob's validators at a time.
func ValidatorsOf(b *metastore.Blob, now time.Time) headers.Validators {
	v := headers.NewValidators(checksum.ETag(b.Size, b.CRC64), b.Modified, b.SharedSecond || !b.Again.IsZero(), now)
	v.Again = b.Again
	return v
}

// SetValidators sets a blob's validators, and the date by the store's clock instead of this node's.
func (x *Exchange) SetValidators(v headers.Validators) {
	x.Fields.Set("Etag", v.ETag)
	x.Fields.Set("Date", Date(v.Date))
	x.Fields.Set("Last-Modified", Date(v.Modified))
}

// MediaType returns a blob's content type, or the default if its writer sent none.
func MediaType(b *metastore.Blob) string {
	if b.ContentType == "" {
		return "application/octet-stream"
	}
	return b.ContentType
}

// SendContent sends the whole blob, one range, or several ranges as multipart/byteranges. Their
// framing is computed first, so that the length is known. It returns the ranges of bytes that were
// sent, even with an error. The response ends when the content does.
func (x *Exchange) SendContent(c *blob.Content, selection headers.Selection, ranges []blob.Range) (served []blob.Range, err error) {
	x.Out.SetDeadline(c.Until())
	c.OnCut(x.Out.Cut)
	frame := headers.MultipartRanges{Length: c.Size}
	status := http.StatusOK
	if selection == headers.SelectPartial {
		status = http.StatusPartialContent
		frame.Length = ranges[0].N
	}
	switch {
	case len(ranges) > 1:
		frame = headers.FrameRanges(ranges, MediaType(&c.Blob), c.Size, headers.NewBoundary())
		x.Fields.Set("Content-Type", frame.ContentType)
	case selection == headers.SelectPartial:
		x.Fields.Set("Content-Range", headers.ContentRange(ranges[0], c.Size))
	}
	x.Fields.Set("Content-Length", strconv.FormatInt(frame.Length, 10))
	x.WriteHeader(status)
	reading := c.Read(ranges, x.paceRead)
	defer reading.Close()
	for i, one := range ranges {
		if len(frame.Parts) > 0 {
			if err := writeFraming(x, frame.Parts[i].Header); err != nil {
				return served, err
			}
		}
		n, err := reading.WriteNext(x.Request.Context(), x.checkedWriter())
		if n > 0 {
			served = append(served, blob.Range{Off: one.Off, N: n})
		}
		if err != nil {
			return served, err
		}
	}
	return served, writeFraming(x, frame.Trailer)
}

// paceRead waits until the caller may have n more bytes. They are read and not sent: a range costs
// the store whole blocks.
func (x *Exchange) paceRead(ctx context.Context, n int64) error {
	for n > 0 {
		chunk := min(n, x.Allowance.ChunkOut())
		if err := x.Allowance.PaceOut(ctx, int(chunk)); err != nil {
			return err
		}
		n -= chunk
	}
	return nil
}

// writeFraming writes the text between ranges. It does not write an empty text, because the first
// write sends the status.
func writeFraming(w io.Writer, text string) error {
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}

// checkedWriter returns x without its ReadFrom on connections for which ReadFrom would copy: bytes
// that are copied anyway are verified on the way.
func (x *Exchange) checkedWriter() io.Writer {
	if x.Request.TLS == nil && x.Request.ProtoMajor == 1 {
		return x
	}
	return struct{ io.Writer }{x}
}

// ContentType returns a media type as it is stored, "" if there is none. It must be valid in a
// header and in JSON.
func ContentType(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	const limit = 255
	if len(values) > 1 || len(values[0]) > limit {
		return "", fmt.Errorf("must occur once, with at most %d characters", limit)
	}
	for i := range len(values[0]) {
		if c := values[0][i]; c < ' ' || c > '~' {
			return "", errors.New("must be printable ASCII")
		}
	}
	return values[0], nil
}
