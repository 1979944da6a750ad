package document

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
)

// ErrMalformed means that a body is not well-formed XML, or not the document that the operation
// wants (MalformedXML).
var ErrMalformed = errors.New("the body is not the XML that this operation needs")

// Bounds of documents. A client that stays below S3's own limits stays far below these.
const (
	mostElements = 16_000 // of a small document
	mostDepth    = 16
	// mostFields is how many elements a part or a key may have.
	mostFields = 16
	// mostUnknown is how many elements may stand beside the parts or keys.
	mostUnknown = 16
	// mostBetween bounds a part or a key as it is written, and everything else between two, in
	// bytes: a key of references has a sixth.
	mostBetween = 64 << 10
)

// Hold counts the memory of a document that is being decoded, n bytes in all until now. An error
// ends the decoding.
type Hold func(n int64) error

// Memory of decoded documents, beside their texts, in bytes: of a part and of a key, in a list that
// grows to at most twice its length.
const (
	partMemory   = 416
	objectMemory = 256
	// holdStep is how many bytes are counted at a time. The first are not: every request may have
	// as many.
	holdStep = 64 << 10
)

// account counts the memory that a document takes.
type account struct {
	hold       Hold
	each       int64 // an entry's bytes beside its texts
	used, held int64
	err        error // of hold
}

// add counts an entry with this many bytes in the document: its texts have no more.
func (a *account) add(texts int64) error {
	a.used += a.each + texts
	if a.used > a.held+holdStep {
		a.held = a.used
		a.err = a.hold(a.held + holdStep)
	}
	return a.err
}

// decode reads a small body into a struct. It ignores elements that the struct does not have.
func decode(body []byte, into any) error {
	source := newTokens(bytes.NewReader(body), mostElements)
	source.window.left = len(body) + 1 // for its end
	return source.read(func(decoder *xml.Decoder) error { return decoder.Decode(into) })
}

// list is a document that has up to most elements of a name, and elements with other names beside
// them.
type list struct {
	root, element, beside  string
	most, listed, unlisted int
}

// decodeList reads a body as it arrives. It calls each for the list's elements and those beside
// them, counts the bytes that each may have kept, and keeps nothing else in memory.
func decodeList(body io.Reader, l list, memory *account, each func(*xml.Decoder, *xml.StartElement) error) error {
	source := newTokens(body, 1+(l.most+mostUnknown)*(1+mostFields))
	err := source.read(func(decoder *xml.Decoder) error {
		if _, err := l.next(decoder, source); err != nil {
			return err
		}
		for {
			start, err := l.next(decoder, source)
			if start == nil || err != nil {
				return err
			}
			from := source.decoder.InputOffset()
			if start.Name.Local != l.element && start.Name.Local != l.beside {
				err = decoder.Skip()
			} else if err = each(decoder, start); err == nil {
				err = memory.add(source.decoder.InputOffset() - from)
			}
			if err != nil {
				return err
			}
		}
	})
	if memory.err != nil {
		return memory.err
	}
	return err
}

// next returns the root's or the next element's start, or nil at the root's end.
func (l *list) next(decoder *xml.Decoder, source *tokens) (*xml.StartElement, error) {
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.EndElement:
			return nil, nil
		case xml.StartElement:
			switch {
			case source.depth == 1 && token.Name.Local != l.root:
				return nil, fmt.Errorf("the root element must be %s", l.root)
			case source.depth == 2 && token.Name.Local == l.element:
				l.listed++
			case source.depth == 2:
				l.unlisted++
			}
			if l.listed > l.most || l.unlisted > mostUnknown {
				return nil, fmt.Errorf("it must have 1 to %d elements %s, and few beside them", l.most, l.element)
			}
			return &token, nil
		}
	}
}

// tokens passes on a document's elements and text, without attributes and namespaces.
type tokens struct {
	decoder               *xml.Decoder
	window                window
	elements, most, depth int
}

func newTokens(body io.Reader, mostElements int) *tokens {
	t := &tokens{window: window{source: body, left: mostBetween}, most: mostElements}
	t.decoder = xml.NewDecoder(&t.window)
	return t
}

// read reads a document by a function that reads its root, and then to the body's end. The error
// wraps ErrMalformed or is the body's.
func (t *tokens) read(root func(*xml.Decoder) error) error {
	err := root(xml.NewTokenDecoder(t))
	if err == nil {
		err = t.end()
	}
	switch {
	case t.window.err != nil:
		return t.window.err
	case err == nil, errors.Is(err, ErrMalformed):
		return err
	default:
		return fmt.Errorf("%w: %.200s", ErrMalformed, err.Error())
	}
}

// end reads behind the root.
func (t *tokens) end() error {
	for {
		token, err := t.decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, isText := token.(xml.CharData)
		if _, comment := token.(xml.Comment); !comment && (!isText || len(bytes.TrimSpace(text)) > 0) {
			return errors.New("something follows the root element")
		}
	}
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
		if t.depth--; t.depth == 1 {
			t.window.left = max(t.window.left, mostBetween)
		}
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
	case t.depth > mostDepth || t.elements > t.most:
		return nil, errors.New("it has too many elements")
	case token.Name.Space != "" && token.Name.Space != namespace:
		return nil, errors.New("an element is in a foreign namespace")
	}
	return xml.StartElement{Name: xml.Name{Local: token.Name.Local}}, nil
}

// window reads a body, and no more than left bytes until it is opened again: encoding/xml keeps a
// token in memory, and the decoded value keeps the texts within an element.
type window struct {
	source io.Reader
	left   int
	err    error // the source's but io.EOF
}

// Read implements io.Reader.
func (w *window) Read(p []byte) (int, error) {
	if w.left == 0 {
		return 0, errors.New("an element, or the space between two, is too long")
	}
	n, err := w.source.Read(p[:min(len(p), w.left)])
	w.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}
