package s3api

import (
	"cmp"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"sluice/access"
	"sluice/bytestore"
	"sluice/checksum"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/s3api/internal/checksums"
	"sluice/s3api/internal/document"
	"sluice/s3api/internal/postpolicy"
)

// postObject stores a file that a page's form has sent. On a hosted service the form's policy must
// be signed; the caller is its signer from then on.
func (s *Server) postObject(x *call) error {
	for name := range x.query {
		if name, ours := amzName(name); ours && !slices.Contains(signatureFields, strings.TrimPrefix(name, amzPrefix)) {
			return fieldError(name, "must be a field of the form")
		}
	}
	form, err := postpolicy.Read(x.Request.Body, x.header.Get("Content-Type"))
	if err != nil {
		return err
	}
	if err := s.admitForm(x, form); err != nil {
		return err
	}
	if err := s.require(x, access.ScopeCreate); err != nil {
		return err
	}
	upload, err := form.Check(x.bucket, s.blobs.Now())
	if err != nil {
		return err
	}
	if err := checkKey(upload.Key); err != nil {
		return err
	}
	if err := x.Require(access.ScopeCreate, x.account, upload.Key); err != nil {
		return err
	}
	x.Access.Name = upload.Key
	header, err := fieldsOf(upload.Header, nil)
	if err == nil {
		err = cmp.Or(checkFieldsOf(header, x.op), checkOwner(header, "X-Amz-Expected-Bucket-Owner", x.account), s.checkEncryption(header))
	}
	if err != nil {
		return err
	}
	d, err := s.describe(x, upload.Key, header)
	if err != nil {
		return err
	}
	if upload.Tagging != "" {
		if header.Get(fieldTagging) != "" {
			return fieldError(fieldTagging, "is stated twice, also as tagging")
		}
		tags, err := documentTags([]byte(upload.Tagging), mostTags)
		if err != nil {
			return err
		}
		d.metadata = withTags(headers.Metadata(d.metadata), tags)
	}
	stated, err := checksums.Parse(header)
	if err != nil {
		return err
	}
	reader := checksums.NewReader(upload.Body, stated, nil)
	stored, err := s.put(x, upload.Key, d, nil, &body{Reader: reader, size: bytestore.UnknownSize, stated: reader})
	if err != nil {
		return err
	}
	etag := checksum.ETag(stored.Size, stored.CRC64)
	x.SetValidators(exchange.ValidatorsOf(&stored, s.blobs.Now()))
	x.Fields.Remove("Last-Modified")
	x.setChecksums(&stored)
	x.setExpiration(&stored)
	x.setVersion(&stored)
	location := x.Scheme() + "://" + x.Request.Host + strings.TrimSuffix(escapedPath(x.Request.URL), "/") + "/" + escapeKey(upload.Key)
	if upload.Redirect != nil {
		to := *upload.Redirect
		q := to.Query()
		q.Set("bucket", x.bucket)
		q.Set("key", upload.Key)
		q.Set("etag", etag)
		to.RawQuery = q.Encode()
		x.Fields.Set("Location", to.String())
		return x.writeEmpty(http.StatusSeeOther)
	}
	x.Fields.Set("Location", location)
	if upload.Status == http.StatusCreated {
		return x.writeXML(http.StatusCreated, document.PostResponse{Location: location, Bucket: x.bucket, Key: document.Name(upload.Key), ETag: etag})
	}
	return x.writeEmpty(upload.Status)
}

// escapeKey returns a key as a URL's path has it.
func escapeKey(key string) string {
	var out strings.Builder
	for _, c := range []byte(key) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~/", c) >= 0 {
			out.WriteByte(c)
		} else {
			out.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{c})))
		}
	}
	return out.String()
}
