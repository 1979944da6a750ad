package document

import (
	"bytes"
	"encoding/xml"
	"strconv"
)

// Object is an object in a listing, or a version of one.
type Object struct {
	Key               Name
	VersionID         string // of a version; as Latest and Mark
	Latest            bool   // it is the newest version of its key
	Mark              bool   // it marks that the object was deleted, and has no ETag and size
	LastModified      Time
	ETag              string
	ChecksumAlgorithm string `xml:",omitempty"`
	ChecksumType      string `xml:",omitempty"`
	Size              int64
	Owner             *Owner `xml:",omitempty"`
	StorageClass      string
}

// CommonPrefix stands for the keys that begin with it.
type CommonPrefix struct{ Prefix Name }

// Page has the fields that all listings of objects have. Its names are as they are: with
// EncodingURL, Encode writes them so.
type Page struct {
	Name           string
	Prefix         Name
	MaxKeys        int
	Delimiter      Name   `xml:",omitempty"`
	EncodingType   string `xml:",omitempty"` // empty or EncodingURL
	IsTruncated    bool
	Contents       []Object       `xml:"-"`
	CommonPrefixes []CommonPrefix `xml:"-"`
}

// encode writes the page's names, and the names that it is given, in its encoding.
func (p *Page) encode(names ...*Name) {
	if p.EncodingType == EncodingURL {
		encodeURL(append(names, &p.Prefix, &p.Delimiter)...)
	}
}

func (p Page) writeEntries(b *bytes.Buffer) { p.writeAs("Contents", b) }

// ListBucketResult is a page of ListObjects.
type ListBucketResult struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Page
	Marker     Name
	NextMarker Name `xml:",omitempty"`
}

func (r ListBucketResult) document() any {
	r.encode(&r.Marker, &r.NextMarker)
	return r
}

// ListBucketResultV2 is a page of ListObjectsV2.
type ListBucketResultV2 struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
	Page
	StartAfter            Name   `xml:",omitempty"`
	ContinuationToken     string `xml:",omitempty"`
	NextContinuationToken string `xml:",omitempty"`
	KeyCount              int    // of Contents and CommonPrefixes
}

func (r ListBucketResultV2) document() any {
	r.encode(&r.StartAfter)
	return r
}

// NullVersion is the id that a version has if it was stored while the bucket kept none.
const NullVersion = "null"

// The elements of ListVersionsResult with a version.
const (
	kindVersion = "Version"
	kindMark    = "DeleteMarker"
)

// ListVersionsResult is a page of ListObjectVersions.
type ListVersionsResult struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListVersionsResult"`
	Page
	KeyMarker           Name
	VersionIDMarker     string `xml:"VersionIdMarker"`
	NextKeyMarker       Name   `xml:",omitempty"`
	NextVersionIDMarker string `xml:"NextVersionIdMarker,omitempty"`
}

func (r ListVersionsResult) document() any {
	r.encode(&r.KeyMarker, &r.NextKeyMarker)
	return r
}

func (r ListVersionsResult) writeEntries(b *bytes.Buffer) { r.writeAs(kindVersion, b) }

// entrySize is about an entry's size without its name, in bytes.
const entrySize = 300

// writeAs writes the entries as encoding/xml would write them, with objects in elements of a kind,
// and marks in their own. That takes three times as long as everything else for a page, because it
// looks at each value by reflection.
func (p *Page) writeAs(kind string, b *bytes.Buffer) {
	contents, prefixes, encoding := p.Contents, p.CommonPrefixes, p.EncodingType
	size := entrySize*len(contents) + sizeOfPrefixes(prefixes, encoding)
	for i := range contents {
		size += lengthIn(contents[i].Key, encoding)
	}
	b.Grow(size) // without it, growing would take twice the memory
	for i := range contents {
		o := &contents[i]
		name := kind
		if o.Mark {
			name = kindMark
		}
		b.WriteString("<" + name + ">")
		element(b, "Key", nameIn(o.Key, encoding))
		if kind == kindVersion {
			element(b, "VersionId", o.VersionID)
			element(b, "IsLatest", strconv.FormatBool(o.Latest))
		}
		element(b, "LastModified", o.LastModified.text())
		if !o.Mark {
			element(b, "ETag", o.ETag)
			optionalElement(b, "ChecksumAlgorithm", o.ChecksumAlgorithm)
			optionalElement(b, "ChecksumType", o.ChecksumType)
			element(b, "Size", strconv.FormatInt(o.Size, 10))
		}
		if o.Owner != nil {
			writeOwner(b, "Owner", o.Owner)
		}
		if !o.Mark {
			element(b, "StorageClass", o.StorageClass)
		}
		b.WriteString("</" + name + ">")
	}
	writePrefixes(b, prefixes, encoding)
}

// sizeOfPrefixes is about how many bytes writePrefixes writes.
func sizeOfPrefixes(prefixes []CommonPrefix, encoding string) int {
	size := entrySize * len(prefixes)
	for i := range prefixes {
		size += lengthIn(prefixes[i].Prefix, encoding)
	}
	return size
}

func writePrefixes(b *bytes.Buffer, prefixes []CommonPrefix, encoding string) {
	for _, p := range prefixes {
		b.WriteString("<CommonPrefixes>")
		element(b, "Prefix", nameIn(p.Prefix, encoding))
		b.WriteString("</CommonPrefixes>")
	}
}

// nameIn returns a name in a listing's encoding.
func nameIn(name Name, encoding string) string {
	if encoding == EncodingURL {
		return string(inURL(name))
	}
	return string(name)
}

// lengthIn returns at most how many bytes a name has in a listing.
func lengthIn(name Name, encoding string) int {
	if encoding == EncodingURL {
		return 3 * len(name)
	}
	return escapedLength(string(name))
}

func writeOwner(b *bytes.Buffer, name string, o *Owner) {
	b.WriteString("<" + name + ">")
	element(b, "ID", o.ID)
	element(b, "DisplayName", o.DisplayName)
	b.WriteString("</" + name + ">")
}

// optionalElement writes an element unless its text is empty.
func optionalElement(b *bytes.Buffer, name, text string) {
	if text != "" {
		element(b, name, text)
	}
}

// element writes an element with a text.
func element(b *bytes.Buffer, name, text string) {
	b.WriteByte('<')
	b.WriteString(name)
	b.WriteByte('>')
	writeEscaped(b, text)
	b.WriteString("</")
	b.WriteString(name)
	b.WriteByte('>')
}
