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

// ErrMalformed means that a body is not well-formed XML, or not the document that the operation
// wants (MalformedXML).
var ErrMalformed = errors.New("the body is not the XML that this operation needs")

// Bounds of documents. A client that stays below S3's own limits stays far below these.
const (
	mostElements = 200_000
	mostDepth    = 16
)

// MostParts is how many parts an upload may have.
const MostParts = 10_000

// MostDeletes is how many keys one request may delete.
const MostDeletes = 1000

// CompletedPart is a part that a client wants in the object.
type CompletedPart struct {
	Number int    // 1 to MostParts
	ETag   string // without quotes
	Checksums
}

// DecodeComplete reads the body that completes an upload. It returns 1 to MostParts parts in the
// order sent. The error wraps ErrMalformed. The caller bounds the body's size.
func DecodeComplete(body []byte) ([]CompletedPart, error) {
	var sent struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Parts   []struct {
			Number []string `xml:"PartNumber"`
			ETag   []string
			Checksums
		} `xml:"Part"`
	}
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	if len(sent.Parts) == 0 || len(sent.Parts) > MostParts {
		return nil, fmt.Errorf("%w: it must have 1 to %d elements Part", ErrMalformed, MostParts)
	}
	parts := make([]CompletedPart, 0, len(sent.Parts))
	for _, part := range sent.Parts {
		text, numberErr := only("PartNumber", part.Number)
		etag, etagErr := only("ETag", part.ETag)
		number, rangeErr := partNumber(text)
		if err := errors.Join(numberErr, etagErr, rangeErr); err != nil {
			return nil, err
		}
		parts = append(parts, CompletedPart{number, strings.Trim(etag, `"`), part.Checksums})
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

// Delete says what to delete.
type Delete struct {
	Quiet   bool // whether the response has errors only
	Objects []DeletedObject
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

// DecodeDelete reads the body that deletes 1 to MostDeletes keys. The error wraps ErrMalformed. The
// caller bounds the body's size.
func DecodeDelete(body []byte) (Delete, error) {
	var sent struct {
		XMLName xml.Name     `xml:"Delete"`
		Quiet   []string     `xml:"Quiet"`
		Objects []sentObject `xml:"Object"`
	}
	if err := decode(body, &sent); err != nil {
		return Delete{}, err
	}
	if len(sent.Objects) == 0 || len(sent.Objects) > MostDeletes {
		return Delete{}, fmt.Errorf("%w: it must have 1 to %d elements Object", ErrMalformed, MostDeletes)
	}
	quiet, err := optional("Quiet", sent.Quiet)
	if err != nil {
		return Delete{}, err
	}
	d := Delete{Objects: make([]DeletedObject, 0, len(sent.Objects))}
	if d.Quiet, err = flag("Quiet", quiet); err != nil {
		return Delete{}, err
	}
	for _, one := range sent.Objects {
		object, err := one.object()
		if err != nil {
			return Delete{}, err
		}
		d.Objects = append(d.Objects, object)
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

// decode reads a body into a struct. It ignores elements that the struct does not have.
func decode(body []byte, into any) error {
	source := &tokens{decoder: xml.NewDecoder(bytes.NewReader(body))}
	if err := xml.NewTokenDecoder(source).Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	for {
		token, err := source.decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		text, isText := token.(xml.CharData)
		if _, comment := token.(xml.Comment); !comment && (!isText || len(bytes.TrimSpace(text)) > 0) {
			return fmt.Errorf("%w: something follows the root element", ErrMalformed)
		}
	}
}

// tokens passes on a document's elements and text, without attributes and namespaces.
type tokens struct {
	decoder         *xml.Decoder
	elements, depth int
}

// Token implements xml.TokenReader. It refuses declarations, such as of entities, processing
// instructions, foreign elements, and documents beyond the bounds.
func (t *tokens) Token() (xml.Token, error) {
	token, err := t.decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case xml.StartElement:
		return t.start(token)
	case xml.EndElement:
		t.depth--
		return xml.EndElement{Name: xml.Name{Local: token.Name.Local}}, nil
	case xml.Directive:
		return nil, errors.New("it has a document type declaration")
	case xml.ProcInst:
		if token.Target != "xml" {
			return nil, errors.New("it has a processing instruction")
		}
	}
	return token, nil
}

func (t *tokens) start(token xml.StartElement) (xml.Token, error) {
	t.depth++
	t.elements++
	switch {
	case t.depth > mostDepth || t.elements > mostElements:
		return nil, errors.New("it has too many elements")
	case token.Name.Space != "" && token.Name.Space != namespace:
		return nil, errors.New("an element is in a foreign namespace")
	}
	return xml.StartElement{Name: xml.Name{Local: token.Name.Local}}, nil
}
