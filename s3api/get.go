package s3api

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"

	"sluice/access"
	"sluice/blob"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/metastore"
	"sluice/wire"
)

// getObject serves GetObject and HeadObject in the order of RFC 9110, section 13.2.2: conditions,
// then the range.
func (s *Server) getObject(x *call) error {
	if x.header.Get("Service-Worker") != "" {
		return exchange.ErrServiceWorker
	}
	overrides, err := x.overrides()
	if err != nil {
		return err
	}
	part, err := x.selectedPart()
	if err != nil {
		return err
	}
	c, err := s.open(x)
	if err != nil {
		return err
	}
	defer c.Close()

	v := exchange.ValidatorsOf(&c.Blob, s.blobs.Now())
	s.setObjectFields(x, &c.Blob, v)
	x.Fields.Set("Content-Security-Policy", headers.ContentPolicy(cmp.Or(overrides["Content-Type"], exchange.MediaType(&c.Blob))))
	conditions := conditionsOf(x.header)
	switch conditions.ForRead(&v) {
	case headers.ConditionFailed:
		return exchange.ErrPrecondition
	case headers.NotModified:
		x.WriteHeader(http.StatusNotModified)
		return nil
	}
	for name, value := range overrides {
		x.Fields.Set(name, value)
	}
	selection, ranges, err := s.selected(x, c, part, conditions.RangeApplies(&v))
	if err != nil {
		return err
	}
	if selection == headers.SelectWhole && x.header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
		x.setChecksums(&c.Blob)
	}
	if x.Request.Method == http.MethodHead {
		return x.writeHead(c, selection, ranges)
	}
	if err := c.CheckRanges(x.Request.Context(), ranges); err != nil {
		return err
	}
	_, err = x.SendContent(c, selection, ranges)
	return err
}

// setObjectFields sets the fields of every response about a blob.
func (s *Server) setObjectFields(x *call, b *metastore.Blob, v headers.Validators) {
	x.SetValidators(v)
	x.Fields.Set("Accept-Ranges", "bytes")
	x.Fields.Set("Content-Type", exchange.MediaType(b))
	if x.rule.Reads != access.ReadsPublic {
		x.Fields.Set("Cache-Control", "private, no-cache") // unless its writer has stated another
	}
	x.setMetadata(headers.Metadata(b.Metadata))
	x.setTagCount(b)
	x.setExpiration(b)
	x.setVersion(b)
	x.setLock(b.Lock)
}

// selectedPart returns which part the request asks for, by its number, or 0.
func (x *call) selectedPart() (int, error) {
	number := x.query.get("partNumber")
	switch {
	case number == "":
		return 0, nil
	case len(x.header["Range"]) > 0:
		return 0, refuseWith("InvalidRequest", wire.CodeBadParameter, "a request can have a Range or a partNumber, not both")
	}
	return partNumber(number)
}

// selected returns the selection by the part's number, or by the range if the number is 0.
func (s *Server) selected(x *call, c *blob.Content, part int, rangeApplies bool) (headers.Selection, []blob.Range, error) {
	if part != 0 {
		return s.selectPart(x, c, part)
	}
	ranged := x.header.Values("Range")
	if !rangeApplies {
		ranged = nil
	}
	selection, ranges := headers.ParseRange(ranged).Resolve(c.Size)
	switch selection {
	case headers.SelectNothing:
		return 0, nil, &exchange.UnsatisfiedRange{Size: c.Size}
	case headers.SelectWhole:
		return selection, wholeOf(c.Size), nil
	}
	return selection, ranges, nil
}

// wholeOf returns the range with all bytes, or none.
func wholeOf(size int64) []blob.Range {
	if size == 0 {
		return nil
	}
	return []blob.Range{{Off: 0, N: size}}
}

// selectPart returns the range with a part.
func (s *Server) selectPart(x *call, c *blob.Content, n int) (headers.Selection, []blob.Range, error) {
	part, total, err := s.blobs.PartRange(x.Request.Context(), c.Blob, n-1)
	if errors.Is(err, blob.ErrPartIndex) {
		return 0, nil, &refusal{code: "InvalidPartNumber", as: wire.CodeRangeNotSatisfiable, detail: "the object has no part with this number"}
	}
	if err != nil {
		return 0, nil, err
	}
	if c.PartSize != 0 {
		x.Fields.Set("X-Amz-Mp-Parts-Count", strconv.Itoa(total))
	}
	if part.Checksum != "" && x.header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
		x.setPartChecksum(&c.Blob, part.Checksum)
	}
	if part.Size == 0 {
		return headers.SelectWhole, nil, nil
	}
	return headers.SelectPartial, []blob.Range{{Off: part.Start, N: part.Size}}, nil
}

// writeHead sends the response that GetObject would send, without the body.
func (x *call) writeHead(c *blob.Content, selection headers.Selection, ranges []blob.Range) error {
	length, status := c.Size, http.StatusOK
	if selection == headers.SelectPartial && len(ranges) == 1 {
		x.Fields.Set("Content-Range", headers.ContentRange(ranges[0], c.Size))
		length, status = ranges[0].N, http.StatusPartialContent
	}
	x.Fields.Set("Content-Length", strconv.FormatInt(length, 10))
	x.WriteHeader(status)
	return nil
}

// overridden are the fields that a signed request may replace in the response, by the parameter.
var overridden = map[string]string{
	"response-cache-control": "Cache-Control", "response-content-disposition": "Content-Disposition", "response-content-encoding": "Content-Encoding",
	"response-content-language": "Content-Language", "response-content-type": "Content-Type", "response-expires": "Expires",
}

// overrides returns the fields that the request replaces in the response.
func (x *call) overrides() (map[string]string, error) {
	var fields map[string]string
	for parameter, name := range overridden {
		value := x.query.get(parameter)
		switch {
		case value == "":
			continue
		case !x.Local && x.Caller == nil:
			return nil, refuseWith("InvalidRequest", wire.CodeBadParameter, "only signed requests can have the parameter %s", parameter)
		case !isPrintable(value):
			return nil, parameterError(parameter, "must be printable ASCII")
		}
		if fields == nil {
			fields = map[string]string{}
		}
		fields[name] = value
	}
	return fields, nil
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
