// Package postpolicy reads uploads by HTML forms ("Browser-Based Uploads Using POST" in the Amazon
// S3 API Reference) and checks them against the policy that they bring. It knows no HTTP handlers,
// and leaves it to its caller to verify the policy's signature.
package postpolicy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
)

// Errors of forms.
var (
	// ErrMalformed means that a body is not a form in multipart/form-data (MalformedPOSTRequest).
	ErrMalformed = errors.New("the body is not a form in multipart/form-data")
	// ErrTooLong means that there is too much before the file (MaxPostPreDataLengthExceeded).
	ErrTooLong = errors.New("the form has too many or too long fields before the file")
	// ErrField means that a field is missing, or is there twice (InvalidArgument).
	ErrField = errors.New("a field of the form is missing or wrong")
)

// Bounds of the fields that may precede the file.
const (
	mostFields     = 100
	mostFieldBytes = 20 << 10 // S3's bound, for the values
	mostFormBytes  = 64 << 10 // with names, headers and boundaries
	mostBoundary   = 70       // bytes (RFC 2046, section 5.1.1)
)

// filenameVariable is replaced by the file's name in the value of every field but the signature's.
const filenameVariable = "${filename}"

// Signature proves who wrote a policy. The caller verifies it over Policy.
type Signature struct {
	Policy     string // in base64, as sent
	Algorithm  string
	Credential string
	Date       string
	Signature  string
}

// signatureFields are the fields that a form has all of, or none.
var signatureFields = []string{"policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature"}

// Form is a form up to its file: its fields have been read.
type Form struct {
	// Signature is nil if the form has no policy.
	Signature *Signature

	fields   map[string]string // by names in lower case, as sent; without the file
	file     io.Reader
	filename string
}

// Read reads a form up to its file, and bounds the size that its fields have with the file's name
// in them, before memory for that is taken. The error wraps ErrMalformed, ErrTooLong, ErrField or
// the body's error.
func Read(body io.Reader, contentType string) (*Form, error) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || parameters["boundary"] == "" || len(parameters["boundary"]) > mostBoundary {
		return nil, fmt.Errorf("%w: the Content-Type must be multipart/form-data with a boundary of at most %d bytes", ErrMalformed, mostBoundary)
	}
	source := &bounded{source: body, left: mostFormBytes}
	f := &Form{fields: map[string]string{}}
	if err := f.read(multipart.NewReader(source, parameters["boundary"])); err != nil {
		return nil, source.explain(err)
	}
	source.lifted = true
	if _, ok := f.fields["key"]; !ok {
		return nil, fmt.Errorf("%w: there must be a field key, before the file", ErrField)
	}
	if err := f.readSignature(); err != nil {
		return nil, err
	}
	return f, nil
}

// read reads the fields, and the file's header.
func (f *Form) read(parts *multipart.Reader) error {
	for size, variables := 0, 0; ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) && len(f.fields) > 0 {
			return fmt.Errorf("%w: there must be one field file", ErrField)
		}
		if err != nil {
			return malformed(err)
		}
		name := strings.ToLower(part.FormName())
		if name == "file" {
			f.file, f.filename = part, baseName(part.FileName())
			if size+variables*(len(f.filename)-len(filenameVariable)) > mostFieldBytes {
				return ErrTooLong
			}
			return nil
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return malformed(err)
		}
		size += len(value)
		if !slices.Contains(signatureFields, name) {
			variables += bytes.Count(value, []byte(filenameVariable))
		}
		if err := f.add(name, string(value), size); err != nil {
			return err
		}
	}
}

// malformed returns the error of a body that cannot be read as a form. It quotes no more of it
// than a reader needs.
func malformed(err error) error { return fmt.Errorf("%w: %.200s", ErrMalformed, err.Error()) }

// add adds a field. The size counts all values so far, in bytes.
func (f *Form) add(name, value string, size int) error {
	_, twice := f.fields[name]
	switch {
	case name == "":
		return fmt.Errorf("%w: a part has no name", ErrMalformed)
	case twice:
		return fmt.Errorf("%w: there must be one field %.40q", ErrField, name)
	case size > mostFieldBytes || len(f.fields) == mostFields:
		return ErrTooLong
	}
	f.fields[name] = value
	return nil
}

// baseName returns a file's name without the folders that some browsers send.
func baseName(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }

// expanded returns the fields with filenameVariable replaced by the file's name. S3 replaces it
// before it checks the policy.
func (f *Form) expanded() map[string]string {
	fields := make(map[string]string, len(f.fields)+1)
	for name, value := range f.fields {
		if !slices.Contains(signatureFields, name) {
			value = strings.ReplaceAll(value, filenameVariable, f.filename)
		}
		fields[name] = value
	}
	return fields
}

// readSignature finds the fields that prove the policy.
func (f *Form) readSignature() error {
	var missing []string
	for _, name := range signatureFields {
		if f.fields[name] == "" {
			missing = append(missing, name)
		}
	}
	_, old := f.fields["awsaccesskeyid"]
	switch {
	case old:
		return fmt.Errorf("%w: AWSAccessKeyId belongs to a signature of version 2; it must be of version 4", ErrField)
	case len(missing) == len(signatureFields):
		return nil
	case len(missing) > 0:
		return fmt.Errorf("%w: a form with a policy or a signature needs the fields %s", ErrField, strings.Join(missing, ", "))
	}
	f.Signature = &Signature{Policy: f.fields["policy"], Algorithm: f.fields["x-amz-algorithm"],
		Credential: f.fields["x-amz-credential"], Date: f.fields["x-amz-date"], Signature: f.fields["x-amz-signature"]}
	return nil
}

// bounded limits how much is read before the limit is lifted.
type bounded struct {
	source io.Reader
	left   int
	lifted bool
	err    error // the source's but io.EOF, or ErrTooLong
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if !b.lifted {
		if b.left == 0 {
			b.err = ErrTooLong
			return 0, ErrTooLong
		}
		p = p[:min(len(p), b.left)]
	}
	n, err := b.source.Read(p)
	b.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// explain returns why the form could not be read: the source's own error, or err.
func (b *bounded) explain(err error) error {
	if b.err != nil {
		return b.err
	}
	return err
}
