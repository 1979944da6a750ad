package httpapi

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

	"sluice/blob"
	"sluice/httpapi/internal/headers"
	"sluice/httpapi/internal/router"
	"sluice/metastore"
	"sluice/metering"
	"sluice/wire"
)

// blobHeaders are the headers that describe a blob or a part of it, and what was
// charged for it. An error reply in its place has none of them.
var blobHeaders = []string{
	"Accept-Ranges", "Blob-Expires", "Chunksets-Charged", "Chunksets-Left", "Content-Length", "Content-Range", "Content-Security-Policy", "Content-Type",
	"ETag", "Last-Modified", "Repr-Digest",
}

// blobTarget gives the account and name that a request's path speaks of.
func blobTarget(p router.Params) (account, name string, err error) {
	if account, err = blob.ParseAccount(p.Get("account")); err != nil {
		return "", "", err
	}
	name = p.Get("blobName")
	return account, name, blob.CheckName(name)
}

// blobError tells that it is a blob which is not there, or not any more.
func blobError(err error) error {
	switch {
	case errors.Is(err, metastore.ErrNotFound):
		return fmt.Errorf("%w: %w", errNoBlob, err)
	case errors.Is(err, metastore.ErrExpired):
		return fmt.Errorf("%w: %w", errBlobExpired, err)
	default:
		return err
	}
}

func (s *Server) putBlob(x *exchange, r *http.Request, p router.Params) error {
	account, name, err := blobTarget(p)
	if err != nil {
		return err
	}
	put := blob.PutOptions{Account: account, Name: name}
	if put.SHA256, err = checkContent(r); err != nil {
		return err
	}
	if put.Precondition, err = s.guardOf(r.Header); err != nil {
		return err
	}
	if put.ContentType, err = contentType(r.Header.Values("Content-Type")); err != nil {
		return fmt.Errorf("%w: Content-Type %w", errHeader, err)
	}
	if put.Expires, err = expiresHeader(r.Header); err != nil {
		return err
	}
	body, err := x.store(r, put.Name)
	if err != nil {
		return err
	}
	put.Owner = x.owner()
	b, err := s.Blobs.Put(x.storing(r), put, body, r.ContentLength)
	if err = body.settle(err); err != nil {
		return err
	}
	setValidators(x.Header(), s.validatorsOf(b))
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// guardOf gives the preconditions of a write as a Precondition, nil when there are
// none.
func (s *Server) guardOf(h http.Header) (metastore.Precondition, error) {
	c := headers.ParseConditions(h)
	if err := c.Malformed(); err != nil || !c.Any() {
		return nil, err
	}
	now := s.Blobs.Now() // a guard is pure
	return func(current *metastore.Blob) error {
		var v *headers.Validators
		if current != nil {
			is := headers.NewValidators(blob.ETag(current.Size, current.CRC64), current.Modified, current.SharedSecond, now)
			v = &is
		}
		if c.ForWrite(v) == headers.ConditionFailed {
			return errPrecondition
		}
		return nil
	}, nil
}

// contentType checks a media type that is to be given back some day, in a
// header and in JSON.
func contentType(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	const limit = 255
	if len(values) > 1 || len(values[0]) > limit {
		return "", fmt.Errorf("must come once, with at most %d characters", limit)
	}
	for i := range len(values[0]) {
		if c := values[0][i]; c < ' ' || c > '~' {
			return "", errors.New("must be printable ASCII")
		}
	}
	return values[0], nil
}

func expiresHeader(h http.Header) (time.Time, error) {
	values := h.Values(wire.HeaderBlobExpires)
	if len(values) == 0 {
		return time.Time{}, nil
	}
	t, ok := parseTimestamp(values[0])
	if !ok || len(values) > 1 {
		return time.Time{}, fmt.Errorf("%w: %s must be a time such as 2030-01-02T15:04:05Z (RFC 3339)", errHeader, wire.HeaderBlobExpires)
	}
	return t, nil
}

func (s *Server) validatorsOf(b metastore.Blob) headers.Validators {
	return headers.NewValidators(blob.ETag(b.Size, b.CRC64), b.Modified, b.SharedSecond, s.Blobs.Now())
}

func setValidators(h http.Header, v headers.Validators) {
	h.Set("ETag", v.ETag)
	h.Set("Date", v.Date.Format(http.TimeFormat)) // else it is by the wall clock of this node
	h.Set("Last-Modified", v.Modified.Format(http.TimeFormat))
}

func (s *Server) deleteBlob(x *exchange, r *http.Request, p router.Params) error {
	account, name, err := blobTarget(p)
	if err != nil {
		return err
	}
	guard, err := s.guardOf(r.Header)
	if err != nil {
		return err
	}
	if err := s.Blobs.Delete(r.Context(), account, name, guard); err != nil {
		return err
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// getBlob answers GET and HEAD, in the order of RFC 9110 section 13.2.2:
// conditions, then the range, then bytes.
func (s *Server) getBlob(x *exchange, r *http.Request, p router.Params) error {
	account, name, err := blobTarget(p)
	if err != nil {
		return err
	}
	bill, err := s.newBill(x, r)
	if err != nil {
		return err
	}
	c, err := s.Blobs.Open(r.Context(), account, name)
	if err != nil {
		return blobError(err)
	}
	defer c.Close()

	s.setPriceHeaders(x.Header(), c.Size)
	if err := bill.Require(c.Size); err != nil {
		return err
	}
	v := s.validatorsOf(c.Blob)
	s.setBlobHeaders(x.Header(), c.Blob, v)
	conditions := headers.ParseConditions(r.Header)
	if s.withholds(x, c.Size) {
		conditions = conditions.Unevaluated()
		if r.Method == http.MethodHead {
			x.Header().Del("ETag")
			x.Header().Del("Repr-Digest")
		}
	}
	switch conditions.ForRead(&v) {
	case headers.ConditionFailed:
		return errPrecondition
	case headers.NotModified:
		x.Header().Del("Content-Type")
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	if r.Method == http.MethodHead {
		x.Header().Set("Content-Length", strconv.FormatInt(c.Size, 10))
		x.WriteHeader(http.StatusOK)
		return nil
	}
	var wanted headers.RangeSet
	if conditions.RangeApplies(&v) {
		wanted = headers.ParseRange(r.Header.Values("Range"))
	}
	if bill != nil && (wanted.Kind() == headers.RangeMalformed || wanted.Kind() == headers.RangeTooMany) {
		return &unsatisfied{size: c.Size} // never the whole blob, which costs more
	}
	selection, ranges := wanted.Resolve(c.Size)
	switch selection {
	case headers.SelectNothing:
		return &unsatisfied{size: c.Size}
	case headers.SelectWhole:
		ranges = metering.Whole(c.Size)
	}
	if err := charge(x, bill, ranges); err != nil {
		return err
	}
	x.out.until = c.Until()
	c.OnCut(x.out.cut)
	served, err := sendBlob(x, r, c, selection, ranges)
	if err != nil {
		bill.Return(served)
	}
	return err
}

// smallSecret is the size up to which a blob can be found from its checksums.
const smallSecret = 16

// withholds reports whether the checksums of a blob of this size must be paid
// for by whoever asks: those of a few bytes are as good as the bytes, whether
// they are sent or compared with.
func (s *Server) withholds(x *exchange, size int64) bool {
	return s.Reads == ReadsPaid && !x.readsFree && size <= smallSecret
}

// setBlobHeaders sets what every reply about a blob carries.
func (s *Server) setBlobHeaders(h http.Header, b metastore.Blob, v headers.Validators) {
	setValidators(h, v)
	setFixed(h, "Accept-Ranges", inBytes)
	switch s.Reads {
	case ReadsPaid:
		setFixed(h, "Cache-Control", noStore)
		h.Add("Vary", wire.HeaderSessionID+", "+wire.HeaderMicropayment)
	case ReadsKey:
		setFixed(h, "Cache-Control", privateNoCache)
	default:
		setFixed(h, "Cache-Control", noCache)
	}
	if s.Keys != nil && s.Reads != ReadsPublic {
		h.Add("Vary", "Authorization, "+wire.HeaderAPIKey)
	}
	// A blob is somebody else's content: it must not run as ours.
	setFixed(h, "Content-Security-Policy", sandbox)
	h.Set("Content-Type", mediaType(b))
	if !b.Expires.IsZero() {
		h.Set(wire.HeaderBlobExpires, b.Expires.UTC().Format(time.RFC3339Nano))
	}
	if b.SHA256 != nil {
		h.Set(wire.HeaderReprDigest, headers.FormatDigest(b.SHA256))
	}
}

// mediaType is what a blob is called when its writer did not say.
func mediaType(b metastore.Blob) string {
	if b.ContentType == "" {
		return "application/octet-stream"
	}
	return b.ContentType
}

// sendBlob sends the whole blob, one range of it, or several as
// multipart/byteranges, whose framing is laid out first so that the length is
// known. It returns the runs of which bytes were sent, also beside an error.
func sendBlob(x *exchange, r *http.Request, c *blob.Content, selection headers.Selection, ranges []blob.Range) (served []blob.Range, err error) {
	h := x.Header()
	frame := headers.MultipartRanges{Length: c.Size, Parts: make([]headers.RangePart, len(ranges))}
	status := http.StatusOK
	if selection == headers.SelectPartial {
		status = http.StatusPartialContent
		frame.Length = ranges[0].N
	}
	switch {
	case len(ranges) > 1:
		frame = headers.FrameRanges(ranges, mediaType(c.Blob), c.Size, headers.NewBoundary())
		h.Set("Content-Type", frame.ContentType)
	case selection == headers.SelectPartial:
		h.Set("Content-Range", headers.ContentRange(ranges[0], c.Size))
	}
	h.Set("Content-Length", strconv.FormatInt(frame.Length, 10))
	x.WriteHeader(status)
	reading := c.Read(ranges, x.paceRead)
	defer reading.Close()
	for i, one := range ranges {
		if err := writeFraming(x, frame.Parts[i].Header); err != nil {
			return served, err
		}
		n, err := reading.WriteNext(r.Context(), sendfileOnly(x, r))
		if n > 0 {
			served = append(served, blob.Range{Off: one.Off, N: n})
		}
		if err != nil {
			return served, err
		}
	}
	return served, writeFraming(x, frame.Trailer)
}

// paceRead waits until n more bytes may go out to the caller. They are read for
// him and not sent: a range costs the store the blocks that it lies in.
func (x *exchange) paceRead(ctx context.Context, n int64) error {
	for n > 0 {
		chunk := min(n, x.allowance.ChunkOut())
		if err := x.allowance.PaceOut(ctx, int(chunk)); err != nil {
			return err
		}
		n -= chunk
	}
	return nil
}

// writeFraming writes what stands around ranges. Around a single one stands
// nothing, and then nothing is written: the first write is what makes the
// status final.
func writeFraming(w io.Writer, text string) error {
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}

// sendfileOnly hides ReadFrom from writers of connections that would copy in
// it: there a block that is copied anyway is checked on the way.
func sendfileOnly(w http.ResponseWriter, r *http.Request) io.Writer {
	if r.TLS == nil && r.ProtoMajor == 1 {
		return w
	}
	return struct{ io.Writer }{w}
}

// unsatisfied is errRange with what the reply must say of the blob.
type unsatisfied struct{ size int64 }

// Error tells the size, which a caller can do something with.
func (e *unsatisfied) Error() string {
	return fmt.Sprintf("%s, which has %d bytes", errRange, e.size)
}

// Unwrap gives errRange.
func (e *unsatisfied) Unwrap() error { return errRange }

func (s *Server) listBlobs(x *exchange, r *http.Request, p router.Params) error {
	account, err := blob.ParseAccount(p.Get("account"))
	if err != nil {
		return err
	}
	q, err := readQuery(r)
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	page, err := s.Blobs.List(r.Context(), metastore.ListQuery{
		Account:   account,
		Prefix:    q.text("prefix"),
		Delimiter: q.text("delimiter"),
		After:     q.text("after"),
		Limit:     limit,
	})
	if err != nil {
		return err
	}
	out := wire.BlobPage{Prefixes: page.Prefixes, Next: page.Next}
	for _, b := range page.Blobs {
		one := wire.Blob{
			Name:         b.Name,
			Size:         b.Size,
			ETag:         blob.ETag(b.Size, b.CRC64),
			ContentType:  mediaType(b),
			LastModified: b.Modified,
			Expires:      b.Expires,
		}
		if s.Keys == nil && s.withholds(x, b.Size) { // who lists with a key reads with it
			one.ETag = ""
		}
		out.Blobs = append(out.Blobs, one)
	}
	return writeJSON(x, http.StatusOK, out)
}

// query are the parameters of a request's query.
type query map[string][]string

// readQuery parses the query strictly: what cannot be decoded, and text that no
// name can hold, is refused instead of dropped.
func readQuery(r *http.Request) (query, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("%w: the query cannot be decoded", errParameter)
	}
	for name, values := range q {
		if len(values) > 1 || !utf8.ValidString(values[0]) {
			return nil, fmt.Errorf("%w: %.40q must come once, in UTF-8", errParameter, name)
		}
	}
	return query(q), nil
}

// text gives a parameter, empty when it is not there.
func (q query) text(name string) string {
	if len(q[name]) == 0 {
		return ""
	}
	return q[name][0]
}

// limit gives the size of the page that is asked for.
func (q query) limit() (int, error) {
	text, given := q["limit"]
	if !given {
		return wire.MaxPageSize, nil
	}
	n, err := strconv.ParseUint(text[0], 10, 63)
	if errors.Is(err, strconv.ErrRange) {
		return wire.MaxPageSize, nil
	}
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: limit must be a number from 1 to %d", errParameter, wire.MaxPageSize)
	}
	return int(min(n, wire.MaxPageSize)), nil
}
