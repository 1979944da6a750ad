package s3api

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"

	"sluice/exchange/headers"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// writeXML sends a document that must not be cached. A GET may be refused for want of memory.
func (x *call) writeXML(status int, r any) error {
	return x.writeDocument(status, "application/xml", document.Encode(r))
}

// writeDocument is writeXML for a document of another type.
func (x *call) writeDocument(status int, contentType string, body []byte) error {
	if x.Request.Method == http.MethodGet {
		if err := x.HoldReply(int64(cap(body))); err != nil {
			return err
		}
	} else {
		x.CountReply(int64(cap(body)))
	}
	x.Fields.Set("Content-Type", contentType)
	x.Fields.Set("Content-Length", strconv.Itoa(len(body)))
	x.Fields.Set("Cache-Control", "no-store")
	x.WriteHeader(status)
	return x.WriteReply(body)
}

// writeEmpty sends a response without a body.
func (x *call) writeEmpty(status int) error {
	if status != http.StatusNoContent {
		x.Fields.Set("Content-Length", "0")
	}
	x.WriteHeader(status)
	return nil
}

// done responds to a change: with err, or if it is nil without a body.
func (x *call) done(err error, status int) error {
	if err != nil {
		return err
	}
	return x.writeEmpty(status)
}

// crc64Text returns a CRC-64/NVME as S3 writes it.
func crc64Text(crc uint64) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, crc))
}

// setMetadata sets the fields with which a blob's writer has described it.
func (x *call) setMetadata(m headers.Metadata) {
	readable := exposed
	for name, value := range m.Fields() {
		if custom, ok := headers.MetaName(name); ok {
			name = strings.ToLower(metaPrefix + custom) // some clients keep the case
			readable += ", " + name
			x.Fields.Set(name, value)
			continue
		}
		x.Fields.Set(name, value)
	}
	if len(readable) > len(exposed) && !x.ruled && x.Fields.Has("Access-Control-Expose-Headers") {
		x.Fields.Set("Access-Control-Expose-Headers", readable)
	}
}

// ownerOf returns an account as the owner of its objects.
func ownerOf(account string) document.Owner {
	return document.Owner{ID: account, DisplayName: account}
}

// metadataOf returns the metadata in a request's header. A blob stores it in the native interface's
// form.
func metadataOf(h http.Header) (headers.Metadata, error) {
	fields := map[string]string{}
	for name, values := range h {
		stored := name
		if custom, ok := strings.CutPrefix(name, metaPrefix); ok {
			stored = wire.HeaderBlobMeta + custom
		}
		switch {
		case stored != name:
		case name == "Cache-Control", name == "Content-Disposition", name == "Content-Language", name == "Expires":
		case name == "Content-Encoding":
			values = []string{withoutChunked(strings.Join(values, ","))}
		default:
			continue
		}
		if len(values) > 1 && stored == name {
			return "", refuseWith("InvalidArgument", wire.CodeBadHeader, "the header %s must occur once", strings.ToLower(name))
		}
		fields[stored] = strings.Trim(strings.Join(values, ","), " \t")
	}
	return headers.ForeignMetadataOf(fields, strings.ToLower(metaPrefix))
}

// withoutChunked returns a Content-Encoding without the coding that only the request's body has.
func withoutChunked(codings string) string {
	var kept []string
	for coding := range strings.SplitSeq(codings, ",") {
		coding = strings.TrimSpace(coding)
		if coding != "" && !strings.EqualFold(coding, "aws-chunked") {
			kept = append(kept, coding)
		}
	}
	return strings.Join(kept, ", ")
}
