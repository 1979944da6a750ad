package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/wire"
)

// What can be wrong with a request's body. They arrive wrapped, and the text
// of the whole error is a sentence for the caller.
var (
	// errBodyTooLarge: a JSON body of more than maxJSONBody bytes.
	errBodyTooLarge = errors.New("the body is too large")
	// errContentEncoding: the body has a content encoding other than identity.
	errContentEncoding = errors.New("the body must come without a Content-Encoding")
	// errMalformedJSON: the body is not JSON, or not what the operation takes.
	errMalformedJSON = errors.New("malformed body")
	// errNumberTooLarge: an amount above 2^63-1.
	errNumberTooLarge = errors.New("the number is larger than 9223372036854775807")
)

// maxJSONBody is the greatest length of a JSON body, in bytes.
const maxJSONBody = wire.MaxJSONBody

// maxExactInteger is the greatest integer that every JSON implementation reads
// exactly.
const maxExactInteger = 1<<53 - 1

// readJSON reads the body of a request, which is a JSON object, into the struct
// that into points to, and returns the body as it came. An empty body is the
// empty object: whether a member may be missing is for the caller to decide
// (missingMember). Members that the struct does not have are ignored, and null
// is as good as missing. Names are case-sensitive. Errors: errContentEncoding,
// errBodyTooLarge, errMalformedJSON, errNumberTooLarge, and those of reading.
func readJSON(r *http.Request, into any) ([]byte, error) {
	if err := checkContentEncoding(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > maxJSONBody {
		return nil, tooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxJSONBody+1))
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	if len(body) > maxJSONBody {
		return nil, tooLarge()
	}
	return body, decodeJSON(body, into)
}

func tooLarge() error {
	return fmt.Errorf("%w: it may have %d bytes", errBodyTooLarge, maxJSONBody)
}

// checkContentEncoding refuses a body that would have to be decoded.
func checkContentEncoding(h http.Header) error {
	for _, line := range h.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			coding = strings.Trim(coding, " \t")
			if coding != "" && !strings.EqualFold(coding, "identity") {
				return errContentEncoding
			}
		}
	}
	return nil
}

// decodeJSON is readJSON on bytes at hand. The library refuses, by default,
// what must not be let through: members given twice, invalid UTF-8, unpaired
// surrogates, trailing data, and nesting without end.
func decodeJSON(data []byte, into any) error {
	if len(bytes.Trim(data, " \t\r\n")) == 0 {
		return nil
	}
	if jsontext.Value(data).Kind() != '{' {
		return fmt.Errorf("%w: it must be a JSON object", errMalformedJSON)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return explainJSON(err)
	}
	return nil
}

// missingMember is the error for a required member that is not there.
func missingMember(name string) error {
	return fmt.Errorf("%w: member %q is required", errMalformedJSON, name)
}

// explainJSON turns an error of the JSON library, which speaks of Go types to
// programmers, into one for the caller.
func explainJSON(err error) error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("%w: %s occurs twice", errMalformedJSON, memberOf(syntactic.JSONPointer))
		}
		// Its cause is not wrapped: JSON that ends early is no body that does.
		return fmt.Errorf("%w: it is not valid JSON, at byte %d: %s", errMalformedJSON, syntactic.ByteOffset, fmt.Sprint(syntactic.Err))
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return fmt.Errorf("%w: %w", errMalformedJSON, err)
	}
	member := memberOf(semantic.JSONPointer)
	if errors.Is(err, errNumberTooLarge) {
		return fmt.Errorf("%s: %w", member, errNumberTooLarge)
	}
	var expected expectation
	if !errors.As(err, &expected) {
		expected = expectationOf(semantic.GoType)
	}
	return fmt.Errorf("%w: %s must be %s", errMalformedJSON, member, string(expected))
}

// memberOf names the place that a JSON pointer points to.
func memberOf(pointer jsontext.Pointer) string {
	if pointer == "" {
		return "the body"
	}
	const limit = 64 // of what the caller sent, no more than he needs to find it
	name := strings.Join(lastTokens(pointer), ".")
	if len(name) > limit {
		name = strings.ToValidUTF8(name[:limit], "") + "..."
	}
	return fmt.Sprintf("member %q", name)
}

// lastTokens gives the last tokens of a pointer: all that is worth showing.
func lastTokens(pointer jsontext.Pointer) []string {
	var tokens []string
	for token := range pointer.Tokens() {
		tokens = append(tokens, token)
	}
	return tokens[max(0, len(tokens)-4):]
}

// expectation says what a member must be; as an error it says that it is not.
type expectation string

// Error gives the phrase that completes "must be".
func (e expectation) Error() string { return string(e) }

// expectationOf describes the JSON that a Go type is read from.
func expectationOf(t reflect.Type) expectation {
	if t == nil {
		return "of another type"
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time such as 2030-01-02T15:04:05Z (RFC 3339)"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return expectationOf(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "an integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "an integer that is not negative"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "of another type"
}

// amount is a count of money, a sequence number or the like, from 0 to 2^63-1.
// In JSON it is a string of decimal digits without leading zeros; an integer
// up to 2^53-1 is read too. As a member that may be missing it is a *amount.
type amount int64

// UnmarshalJSONFrom reads an amount. A larger one is errNumberTooLarge.
func (a *amount) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	const expected expectation = `a whole number in decimal digits, as a string such as "250"`
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	digits := string(value)
	switch value.Kind() {
	case 'n':
		*a = 0
		return nil
	case '"':
		unquoted, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return err
		}
		digits = string(unquoted)
	case '0':
	default:
		return expected
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		return expected
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil { // all are digits, so it is out of range
		return errNumberTooLarge
	}
	if value.Kind() == '0' && n > maxExactInteger {
		return expectation(fmt.Sprintf("a string of digits, as it is above %d", maxExactInteger))
	}
	*a = amount(n)
	return nil
}

// MarshalJSONTo writes an amount as a string.
func (a amount) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.String(strconv.FormatInt(int64(a), 10)))
}

// parseTimestamp reads an RFC 3339 time and gives it in UTC, to the
// microsecond, which is as exactly as it can be stored.
func parseTimestamp(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	// Package time would also take an hour of one digit and a decimal comma.
	if err != nil || s[len("2006-01-02T15")] != ':' || strings.Contains(s, ",") {
		return time.Time{}, false
	}
	return t.UTC().Truncate(time.Microsecond), true
}
