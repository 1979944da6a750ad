package s3api

import (
	"net/http"
	"strings"

	"sluice/exchange/headers"
	"sluice/metastore"
	"sluice/s3api/internal/checksums"
	"sluice/s3api/internal/document"
	"sluice/wire"
)

// A blob has a CRC-64/NVME, and keeps the checksum by another algorithm that its writer has stated:
// in the property with the name of that algorithm's header field, as S3 writes it. Responses have
// one of them, as Amazon's: beside a second one, Amazon's SDK for JavaScript takes a composite
// checksum for the whole object's.

// fieldUploadChecksum is an upload's property with the algorithm and the type that its checksums
// have, and a space between them.
const fieldUploadChecksum = "X-Amz-Checksum-Algorithm"

// fieldOf names an algorithm's header field.
func fieldOf(a checksums.Algorithm) string { return http.CanonicalHeaderKey(a.Header()) }

// checksumOf returns the checksum that a blob keeps, or else its CRC-64/NVME.
func checksumOf(b *metastore.Blob) (checksums.Algorithm, string) {
	for _, a := range checksums.Algorithms() {
		if text := headers.Metadata(b.Metadata).Property(fieldOf(a)); text != "" {
			return a, text
		}
	}
	return checksums.CRC64NVME, crc64Text(b.CRC64)
}

// keeping returns a blob's metadata with the checksum that it keeps.
func keeping(metadata string, a checksums.Algorithm, text string) string {
	m := headers.Metadata(metadata).WithProperty(fieldUploadChecksum, "")
	if a != "" && a != checksums.CRC64NVME {
		m = m.WithProperty(fieldOf(a), text)
	}
	return string(m)
}

// checksumsOf returns a blob's checksum.
func checksumsOf(b *metastore.Blob) (sums document.Checksums) {
	a, text := checksumOf(b)
	if member := sums.Of(string(a)); member != nil {
		*member = text
	}
	sums.ChecksumType = string(checksums.TypeOf(text))
	return sums
}

// setChecksums sets the fields with a blob's checksum.
func (x *call) setChecksums(b *metastore.Blob) {
	a, text := checksumOf(b)
	x.Fields.Set(fieldOf(a), text)
	x.Fields.Set(fieldChecksumType, string(checksums.TypeOf(text)))
}

// setPartChecksum sets the fields with the checksum that a part of a blob keeps, and the type that
// the blob's has.
func (x *call) setPartChecksum(b *metastore.Blob, kept string) {
	a, sum := checksumOfPart(&metastore.Part{Checksum: kept})
	x.Fields.Set(fieldOf(a), sum)
	_, whole := checksumOf(b)
	x.Fields.Set(fieldChecksumType, string(checksums.TypeOf(whole)))
}

// uploadChecksum returns the algorithm and the type that an open upload was begun with, or none.
func uploadChecksum(u *metastore.Upload) (checksums.Algorithm, checksums.Type) {
	name, kind, _ := strings.Cut(headers.Metadata(u.Metadata).Property(fieldUploadChecksum), " ")
	return checksums.Algorithm(name), checksums.Type(kind)
}

// statedForUpload returns the checksum of a part's body: the stated one, or else one to compute,
// because the upload was begun for it. A part cannot state a different one.
func statedForUpload(stated checksums.Stated, a checksums.Algorithm) (checksums.Stated, error) {
	switch stated.Algorithm {
	case a:
	case "":
		if a != checksums.CRC64NVME { // which every part has
			stated.Algorithm = a
		}
	default:
		if a != "" {
			return stated, refuseWith("InvalidRequest", wire.CodeBadHeader, "the upload was begun for %s, so a part cannot state its %s", a, stated.Algorithm)
		}
	}
	return stated, nil
}

// keptByPart returns a part's metastore.Part.Checksum, when its body was read.
func (b *body) keptByPart() string {
	v := b.stated.Value()
	if v.Algorithm == "" || v.Algorithm == checksums.CRC64NVME {
		return ""
	}
	return string(v.Algorithm) + " " + v.String()
}

// checksumOfPart returns the checksum that a part keeps, or else its CRC-64/NVME.
func checksumOfPart(p *metastore.Part) (checksums.Algorithm, string) {
	if name, text, kept := strings.Cut(p.Checksum, " "); kept {
		return checksums.Algorithm(name), text
	}
	return checksums.CRC64NVME, crc64Text(p.CRC64)
}

// checksumsOfPart returns a part's checksum.
func checksumsOfPart(p *metastore.Part) (sums document.Checksums) {
	a, text := checksumOfPart(p)
	if member := sums.Of(string(a)); member != nil {
		*member = text
	}
	return sums
}
