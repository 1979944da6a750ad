package main

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"sluice/access/keys"
	"sluice/internal/units"
)

// limitFlags are flags that set limits, one for each of keys.LimitKinds.
type limitFlags struct {
	// Values points to a struct with a field of type count or size for each flag.
	// newLimitFlags creates its type, because kong defines flags by struct fields.
	Values any `embed:""`
}

// newLimitFlags returns flags for all limits.
func newLimitFlags() limitFlags {
	var fields []reflect.StructField
	for _, k := range keys.LimitKinds {
		typ := reflect.TypeFor[count]()
		if k.Bytes {
			typ = reflect.TypeFor[size]()
		}
		tag := fmt.Sprintf("name:%q placeholder:%q help:%q", k.Flag(), limitPlaceholder(k), limitHelp(k, "${whose}"))
		fields = append(fields, reflect.StructField{Name: fieldName(k), Type: typ, Tag: reflect.StructTag(tag)})
	}
	return limitFlags{reflect.New(reflect.StructOf(fields)).Interface()}
}

// limitPlaceholder returns a limit's placeholder in the help.
func limitPlaceholder(k keys.LimitKind) string {
	if k.Bytes {
		return "SIZE"
	}
	return "N"
}

// limitHelp returns a limit's help for some callers.
func limitHelp(k keys.LimitKind, callers string) string {
	return fmt.Sprintf("Maximum %s for %s, or %s.", k.Help, callers, unlimitedText)
}

// fieldName returns the field name for a flag.
func fieldName(k keys.LimitKind) string {
	member := k.Member()
	return strings.ToUpper(member[:1]) + member[1:]
}

// limits returns the limits that were set. A limit that was not set is 0.
func (f limitFlags) limits() (limits keys.Limits) {
	values := reflect.ValueOf(f.Values).Elem()
	for _, k := range keys.LimitKinds {
		*k.Of(&limits) = values.FieldByName(fieldName(k)).Int()
	}
	return limits
}

const (
	unlimited     = keys.Unlimited
	unlimitedText = "unlimited"
)

// count is a limit as a number; 0 if it was not set.
type count int64

// UnmarshalText parses a number of at least 1; "unlimited" or -1 is no limit.
func (c *count) UnmarshalText(text []byte) error {
	n, err := parseLimit(string(text), parseNumber)
	if err != nil {
		return fmt.Errorf("want a number of at least 1, or %s, not %q", unlimitedText, text)
	}
	*c = count(n)
	return nil
}

// String returns the number as UnmarshalText parses it, or "" if it was not set.
func (c count) String() string {
	switch c {
	case 0:
		return ""
	case unlimited:
		return unlimitedText
	default:
		return strconv.FormatInt(int64(c), 10)
	}
}

// size is a limit in bytes; 0 if it was not set.
type size int64

// UnmarshalText parses a size of at least 1 byte, as units.ParseSize does; "unlimited" or -1 is no
// limit.
func (s *size) UnmarshalText(text []byte) error {
	n, err := parseLimit(string(text), units.ParseSize)
	if err != nil {
		return fmt.Errorf("want a size of at least 1 byte, such as 512MiB or 10G, or %s, not %q", unlimitedText, text)
	}
	*s = size(n)
	return nil
}

// String returns the size as UnmarshalText parses it, or "" if it was not set.
func (s size) String() string {
	if s > 0 {
		return units.FormatSize(int64(s))
	}
	return count(s).String()
}

var errLimit = errors.New("a limit is at least 1")

// parseLimit parses a limit with parse, or as no limit.
func parseLimit(text string, parse func(string) (int64, error)) (int64, error) {
	if text == unlimitedText || text == strconv.Itoa(unlimited) {
		return unlimited, nil
	}
	n, err := parse(text)
	if err == nil && n < 1 {
		return 0, errLimit
	}
	return n, err
}

func parseNumber(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }
