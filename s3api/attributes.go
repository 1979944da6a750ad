package s3api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"sluice/blob"
	"sluice/checksum"
	"sluice/exchange"
	"sluice/metastore"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// attributes are the attributes that GetObjectAttributes can return.
var attributes = []string{"ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"}

// getAttributes returns the attributes that the request names.
func (s *Server) getAttributes(x *call) error {
	wanted, err := wantedAttributes(x.header)
	if err != nil {
		return err
	}
	c, err := s.open(x)
	if err != nil {
		return err
	}
	defer c.Close()
	var result document.GetObjectAttributesResponse
	if slices.Contains(wanted, "ETag") {
		result.ETag = strings.Trim(checksum.ETag(c.Size, c.CRC64), `"`)
	}
	if slices.Contains(wanted, "Checksum") {
		sums := checksumsOf(&c.Blob)
		result.Checksum = &sums
	}
	if slices.Contains(wanted, "StorageClass") {
		result.StorageClass = storageClass
	}
	if slices.Contains(wanted, "ObjectSize") {
		result.ObjectSize = &c.Size
	}
	if slices.Contains(wanted, "ObjectParts") && c.PartSize != 0 {
		if result.ObjectParts, err = s.partsOf(x, c); err != nil {
			return err
		}
	}
	x.Fields.Set("Last-Modified", exchange.Date(c.Modified))
	x.setVersion(&c.Blob)
	return x.writeXML(http.StatusOK, result)
}

// wantedAttributes returns the attributes in a header.
func wantedAttributes(h http.Header) ([]string, error) {
	var wanted []string
	for _, line := range h.Values("X-Amz-Object-Attributes") {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(attributes, name) {
				return nil, refuseWith("InvalidArgument", wire.CodeBadHeader, "x-amz-object-attributes can only have %s", strings.Join(attributes, ", "))
			}
			wanted = append(wanted, name)
		}
	}
	if len(wanted) == 0 {
		return nil, refuseWith("InvalidRequest", wire.CodeBadHeader, "the header x-amz-object-attributes is required")
	}
	return wanted, nil
}

// partsOf returns a page with an object's parts.
func (s *Server) partsOf(x *call, c *blob.Content) (*document.ObjectParts, error) {
	limit, err := headerNumber(x.header, "X-Amz-Max-Parts", mostParts)
	if err != nil {
		return nil, err
	}
	marker, err := headerNumber(x.header, "X-Amz-Part-Number-Marker", 0)
	if err != nil {
		return nil, err
	}
	limit = min(limit, mostParts)
	list, total, err := s.blobs.PartRanges(x.Request.Context(), c.Blob, min(marker, metastore.MaxUnevenParts)-1, limit+1)
	if err != nil {
		return nil, err
	}
	parts := &document.ObjectParts{PartsCount: total, PartNumberMarker: marker, MaxParts: limit, IsTruncated: len(list) > limit}
	for _, p := range list[:min(limit, len(list))] {
		parts.NextPartNumberMarker = p.Index + 1
		part := document.ObjectPart{PartNumber: p.Index + 1, Size: p.Size}
		if p.Checksum != "" {
			part.Checksums = checksumsOfPart(&metastore.Part{Checksum: p.Checksum})
		}
		parts.Parts = append(parts.Parts, part)
	}
	return parts, nil
}

// headerNumber returns a header that is a number.
func headerNumber(h http.Header, name string, otherwise int) (int, error) {
	text := h.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, refuseWith("InvalidArgument", wire.CodeBadHeader, "the header %s must be a number", strings.ToLower(name))
	}
	return int(n), nil
}
