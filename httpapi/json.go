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

	"sluice/exchange"
	"sluice/wire"
)

// Errors of a request's body. They are wrapped with details for the client.
var (
	// errContentEncoding reports a body with a content encoding other than identity.
	errContentEncoding = errors.New("the body must not have a Content-Encoding")
	// errMalformedJSON reports a body that is not JSON or not valid for the operation.
	errMalformedJSON = errors.New("malformed body")
	// errNumberTooLarge reports an amount above 2^63-1.
	errNumberTooLarge = errors.New("the number is larger than 9223372036854775807")
)

// maxJSONBody is a JSON body's maximum length, in bytes.
const maxJSONBody = wire.MaxJSONBody

// maxExactInteger is the greatest integer that every JSON implementation represents exactly.
const maxExactInteger = 1<<53 - 1

// readJSON decodes a request's body, a JSON object, into the struct that into points to, and
// returns the body. An empty body is the empty object; callers check for required members
// themselves (missingMember). Unless options say so, unknown members are ignored, and null is
// equivalent to an absent member. Names are case-sensitive. It returns errContentEncoding,
// exchange.ErrBodyTooLarge, errMalformedJSON, errNumberTooLarge, or the errors of reading the body.
func readJSON(r *http.Request, into any, options ...json.Options) ([]byte, error) {
	if err := checkContentEncoding(r.Header); err != nil {
		return nil, err
	}
	if r.ContentLength > maxJSONBody {
		return nil, tooLarge()
	}
	if r.ContentLength == 0 {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxJSONBody+1))
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	if len(body) > maxJSONBody {
		return nil, tooLarge()
	}
	return body, decodeJSON(body, into, options...)
}

func tooLarge() error { return exchange.BodyTooLarge(maxJSONBody) }

// checkContentEncoding returns errContentEncoding for an encoded body.
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

// decodeJSON is readJSON for a body in memory. By default, the library refuses duplicate members,
// invalid UTF-8, unpaired surrogates, trailing data, and excessive nesting.
func decodeJSON(data []byte, into any, options ...json.Options) error {
	if len(bytes.Trim(data, " \t\r\n")) == 0 {
		return nil
	}
	if jsontext.Value(data).Kind() != '{' {
		return fmt.Errorf("%w: it must be a JSON object", errMalformedJSON)
	}
	if err := json.Unmarshal(data, into, options...); err != nil {
		return explainJSON(err)
	}
	return nil
}

// missingMember returns the error for a required member that is absent.
func missingMember(name string) error {
	return fmt.Errorf("%w: member %q is required", errMalformedJSON, name)
}

// explainJSON converts a JSON library's error, which mentions Go types, into one for the client.
func explainJSON(err error) error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Errorf("%w: %s occurs twice", errMalformedJSON, memberOf(syntactic.JSONPointer))
		}
		// The cause is not wrapped: JSON that ends early is not an incomplete body.
		return fmt.Errorf("%w: it is not valid JSON, at byte %d: %s", errMalformedJSON, syntactic.ByteOffset, fmt.Sprint(syntactic.Err))
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return fmt.Errorf("%w: %w", errMalformedJSON, err)
	}
	member := memberOf(semantic.JSONPointer)
	if errors.Is(err, json.ErrUnknownName) {
		return fmt.Errorf("%w: %s is not known", errMalformedJSON, member)
	}
	if errors.Is(err, errNumberTooLarge) {
		return fmt.Errorf("%s: %w", member, errNumberTooLarge)
	}
	var expected expectation
	if !errors.As(err, &expected) {
		expected = expectationOf(semantic.GoType)
	}
	return fmt.Errorf("%w: %s must be %s", errMalformedJSON, member, string(expected))
}

// memberOf returns a description of a JSON pointer's target.
func memberOf(pointer jsontext.Pointer) string {
	if pointer == "" {
		return "the body"
	}
	const limit = 64 // enough for the client to find it
	name := strings.Join(lastTokens(pointer), ".")
	if len(name) > limit {
		name = strings.ToValidUTF8(name[:limit], "") + "..."
	}
	return fmt.Sprintf("member %q", name)
}

func lastTokens(pointer jsontext.Pointer) []string {
	var tokens []string
	for token := range pointer.Tokens() {
		tokens = append(tokens, token)
	}
	return tokens[max(0, len(tokens)-4):]
}

// expectation describes a member's valid values. As an error it reports that the member is not.
type expectation string

// Error returns the phrase that completes "must be".
func (e expectation) Error() string { return string(e) }

// expectationOf describes the JSON that is decoded into a Go type.
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

// amount is an amount of money, a sequence number or a similar number, from 0 to 2^63-1. In JSON it
// is a string of decimal digits without leading zeros; integers up to 2^53-1 are accepted too.
// Optional members have the type *amount.
type amount int64

// UnmarshalJSONFrom decodes an amount. It returns errNumberTooLarge for a greater number.
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

// MarshalJSONTo encodes an amount as a string.
func (a amount) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.String(strconv.FormatInt(int64(a), 10)))
}

// parseTimestamp parses an RFC 3339 time and returns it in UTC, truncated to microseconds, the
// precision with which it is stored. It refuses the zero time, which would mean that there is none,
// and a time after the year 9999 in UTC, which no response could contain.
func parseTimestamp(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	// Package time also accepts an hour of one digit and a decimal comma.
	if err != nil || s[len("2006-01-02T15")] != ':' || strings.Contains(s, ",") {
		return time.Time{}, false
	}
	t = t.UTC().Truncate(time.Microsecond)
	return t, t.After(time.Time{}) && t.Year() <= 9999
}

// writeJSON sends a JSON response that must not be cached. A GET may be refused for want of memory.
func writeJSON(x *call, status int, v any) error {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	body = append(body, '\n') // for terminals
	if x.Request.Method == http.MethodGet {
		if err := x.HoldReply(int64(cap(body))); err != nil {
			return err
		}
	} else {
		x.CountReply(int64(cap(body)))
	}
	x.Fields.Set("Content-Type", "application/json")
	x.Fields.Set("Content-Length", strconv.Itoa(len(body)))
	x.Fields.Set("Cache-Control", "no-store")
	x.WriteHeader(status)
	return x.WriteReply(body)
}
