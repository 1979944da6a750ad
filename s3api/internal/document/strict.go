package document

import (
	"encoding/xml"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// strict is embedded in each struct that decodeStrictly decodes, so that no element is ignored.
type strict struct {
	Unknown []unknown `xml:",any"`
}

type unknown struct{ XMLName xml.Name }

// decodeStrictly is decode into a struct with strict in it and in its members.
func decodeStrictly(body []byte, into any) error {
	if err := decode(body, into); err != nil {
		return err
	}
	if name := unknownIn(reflect.ValueOf(into).Elem()); name != "" {
		return fmt.Errorf("%w: there is no element %.100s in it", ErrMalformed, name)
	}
	return nil
}

// unknownIn returns the name of an element that a decoded value does not have, or "".
func unknownIn(v reflect.Value) (name string) {
	switch {
	case v.Type() == reflect.TypeFor[unknown]():
		return v.Field(0).Field(1).String()
	case v.Kind() == reflect.Struct:
		for i := 0; i < v.NumField() && name == ""; i++ {
			name = unknownIn(v.Field(i))
		}
	case v.Kind() == reflect.Slice:
		for i := 0; i < v.Len() && name == ""; i++ {
			name = unknownIn(v.Index(i))
		}
	}
	return name
}

// oneOf is optional for an element with one of two texts.
func oneOf(element string, texts []string, a, b string) (string, error) {
	text, err := optional(element, texts)
	if err == nil && text != "" && text != a && text != b {
		err = fmt.Errorf("%w: %s must be %s or %s", ErrMalformed, element, a, b)
	}
	return text, err
}

// integer returns an element's integer of 32 bits, and whether it is there.
func integer(element string, texts []string) (n int, stated bool, err error) {
	text, err := optional(element, texts)
	if err != nil || len(texts) == 0 {
		return 0, false, err
	}
	long, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
	if err != nil {
		return 0, false, fmt.Errorf("%w: %s must be an integer", ErrMalformed, element)
	}
	return int(long), true, nil
}

// instant returns an element's time, or zero if it is not there.
func instant(element string, texts []string) (t time.Time, err error) {
	text, err := optional(element, texts)
	if err != nil || text == "" {
		return t, err
	}
	if t, err = ParseTime(text); err != nil {
		err = fmt.Errorf("%w: %s %w", ErrMalformed, element, err)
	}
	return t, err
}

// ParseTime parses a time with seconds, or a date, which begins at midnight UTC (ISO 8601).
func ParseTime(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil && t.UTC().Year() >= 1970 {
			return t.UTC(), nil
		}
	}
	return time.Time{}, errors.New("must be a time since 1970, such as 2030-12-31T00:00:00Z")
}

// FormatTime returns a time as a retention's end is written.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
