package document

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// MostParts is how many parts an upload may have.
const MostParts = 10_000

// MostDeletes is how many keys one request may delete.
const MostDeletes = 1000

// mostKeys bounds keys together, as a response writes them, in bytes: each character may be a
// reference.
const mostKeys = MostDeletes * 1024 * len("&#34;")

// CompletedPart is a part that a client wants in the object.
type CompletedPart struct {
	Number int    // 1 to MostParts
	ETag   string // without quotes
	Checksums
}

// DecodeComplete reads the body that completes an upload. It returns 1 to MostParts parts in the
// order sent. The error wraps ErrMalformed, or is from the body or from hold. The caller bounds the
// body's size.
func DecodeComplete(body io.Reader, hold Hold) ([]CompletedPart, error) {
	var parts []CompletedPart
	memory := &account{hold: hold, each: partMemory}
	err := decodeList(body, list{root: "CompleteMultipartUpload", element: "Part", most: MostParts}, memory, func(decoder *xml.Decoder, start *xml.StartElement) error {
		var sent struct {
			Number []string `xml:"PartNumber"`
			ETag   []string
			Checksums
		}
		if err := decoder.DecodeElement(&sent, start); err != nil {
			return err
		}
		text, numberErr := only("PartNumber", sent.Number)
		etag, etagErr := only("ETag", sent.ETag)
		number, rangeErr := partNumber(text)
		if err := errors.Join(numberErr, etagErr, rangeErr); err != nil {
			return err
		}
		parts = append(parts, CompletedPart{number, strings.Trim(etag, `"`), sent.Checksums})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: it must have 1 to %d elements Part", ErrMalformed, MostParts)
	}
	return parts, nil
}

func partNumber(text string) (int, error) {
	number, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || number < 1 || number > MostParts {
		return 0, fmt.Errorf("%w: each PartNumber must be an integer from 1 to %d", ErrMalformed, MostParts)
	}
	return number, nil
}

// Delete lists the objects to delete.
type Delete struct {
	Quiet   bool // whether the response has errors only
	Objects []DeletedObject
	Escaped int // the bytes that the keys have in a response
}

// DeletedObject is a key to delete. It is deleted only if every condition that is not
// empty holds.
type DeletedObject struct {
	Key              string // not empty
	VersionID        string
	ETag             string // a condition, as sent
	Size             string // a condition, as sent
	LastModifiedTime string // a condition, as sent
}

// DecodeDelete reads the body that deletes 1 to MostDeletes keys. The error wraps ErrMalformed, or
// is from the body or from hold. The caller bounds the body's size.
func DecodeDelete(body io.Reader, hold Hold) (d Delete, err error) {
	memory, quiet := &account{hold: hold, each: objectMemory}, []string(nil)
	err = decodeList(body, list{root: "Delete", element: "Object", beside: "Quiet", most: MostDeletes}, memory, func(decoder *xml.Decoder, start *xml.StartElement) error {
		if start.Name.Local == "Quiet" {
			quiet = append(quiet, "")
			return decoder.DecodeElement(&quiet[len(quiet)-1], start)
		}
		var sent sentObject
		if err := decoder.DecodeElement(&sent, start); err != nil {
			return err
		}
		object, err := sent.object()
		if err != nil {
			return err
		}
		if d.Escaped += escapedLength(object.Key); d.Escaped > mostKeys {
			return fmt.Errorf("%w: the keys are too long together", ErrMalformed)
		}
		d.Objects = append(d.Objects, object)
		return nil
	})
	if err != nil {
		return Delete{}, err
	}
	if len(d.Objects) == 0 {
		return Delete{}, fmt.Errorf("%w: it must have 1 to %d elements Object", ErrMalformed, MostDeletes)
	}
	if d.Quiet, err = optionalFlag("Quiet", quiet); err != nil {
		return Delete{}, err
	}
	return d, nil
}

// sentObject has lists, because an element that is there twice must be seen.
type sentObject struct {
	Key              []string
	VersionID        []string `xml:"VersionId"`
	ETag             []string
	Size             []string
	LastModifiedTime []string
}

func (s *sentObject) object() (o DeletedObject, err error) {
	var errs [5]error
	o.Key, errs[0] = only("Key", s.Key)
	o.VersionID, errs[1] = optional("VersionId", s.VersionID)
	o.ETag, errs[2] = optional("ETag", s.ETag)
	o.Size, errs[3] = optional("Size", s.Size)
	o.LastModifiedTime, errs[4] = optional("LastModifiedTime", s.LastModifiedTime)
	return o, errors.Join(errs[:]...)
}

// DecodeCreateBucket reads the body that creates a bucket, which may be empty, and returns the
// location that it wants, or nothing. The error wraps ErrMalformed. The caller bounds the body's
// size.
func DecodeCreateBucket(body []byte) (location string, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return "", nil
	}
	var sent struct {
		XMLName  xml.Name `xml:"CreateBucketConfiguration"`
		Location []string `xml:"LocationConstraint"`
	}
	if err := decode(body, &sent); err != nil {
		return "", err
	}
	location, err = optional("LocationConstraint", sent.Location)
	return strings.TrimSpace(location), err
}

// DecodeTagging reads a body with tags, in the order sent, with a key each. The error wraps
// ErrMalformed. The caller bounds the body's size.
func DecodeTagging(body []byte) ([]Tag, error) {
	var sent struct {
		XMLName xml.Name `xml:"Tagging"`
		Sets    []struct {
			Tags []struct{ Key, Value []string } `xml:"Tag"`
		} `xml:"TagSet"`
	}
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	if len(sent.Sets) != 1 {
		return nil, fmt.Errorf("%w: it must have one TagSet", ErrMalformed)
	}
	var tags []Tag
	for _, one := range sent.Sets[0].Tags {
		key, keyErr := only("Key", one.Key)
		value, valueErr := optional("Value", one.Value)
		if err := errors.Join(keyErr, valueErr); err != nil {
			return nil, err
		}
		tags = append(tags, Tag{key, value})
	}
	return tags, nil
}

// only returns an element's text, which must be there once and not be empty.
func only(element string, texts []string) (string, error) {
	if len(texts) != 1 || texts[0] == "" {
		return "", fmt.Errorf("%w: it must have exactly one %s, which is not empty", ErrMalformed, element)
	}
	return texts[0], nil
}

// optional returns an element's text, which may be there once.
func optional(element string, texts []string) (string, error) {
	if len(texts) > 1 {
		return "", fmt.Errorf("%w: it must have at most one %s", ErrMalformed, element)
	}
	return strings.Join(texts, ""), nil
}

// optionalFlag is flag for an element that may be there once.
func optionalFlag(element string, texts []string) (bool, error) {
	text, err := optional(element, texts)
	if err != nil {
		return false, err
	}
	return flag(element, text)
}

// flag reads a boolean (XML Schema Part 2, 3.2.2). An element that is missing is false.
func flag(element, text string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "1":
		return true, nil
	case "", "false", "0":
		return false, nil
	}
	return false, fmt.Errorf("%w: %s must be true or false", ErrMalformed, element)
}
