package main

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sluice/metastore"
)

// limitFlags are flags that set limits, one for each of metastore.LimitKinds, or for
// all but the quotas.
type limitFlags struct {
	// Values points to a struct with a field of type count or size for each flag.
	// newLimitFlags creates its type, because kong defines flags by struct fields.
	Values any `embed:""`
}

// newLimitFlags returns flags for all limits, or for all but the quotas.
func newLimitFlags(quotas bool) limitFlags {
	var fields []reflect.StructField
	for _, k := range metastore.LimitKinds {
		if k.Quota() && !quotas {
			continue
		}
		typ, placeholder := reflect.TypeFor[count](), "N"
		if k.Bytes {
			typ, placeholder = reflect.TypeFor[size](), "SIZE"
		}
		help := fmt.Sprintf("Maximum %s for ${whose}, or %s.", k.Help, unlimitedText)
		tag := fmt.Sprintf("name:%q placeholder:%q help:%q", k.Flag(), placeholder, help)
		fields = append(fields, reflect.StructField{Name: fieldName(k), Type: typ, Tag: reflect.StructTag(tag)})
	}
	return limitFlags{reflect.New(reflect.StructOf(fields)).Interface()}
}

// fieldName returns the name of the field for a flag.
func fieldName(k metastore.LimitKind) string {
	member := k.Member()
	return strings.ToUpper(member[:1]) + member[1:]
}

// limits returns the limits that were set. A limit that was not set is 0, and a limit
// without a flag is Unlimited.
func (f limitFlags) limits() metastore.Limits {
	limits, values := metastore.NoLimits(), reflect.ValueOf(f.Values).Elem()
	for _, k := range metastore.LimitKinds {
		if field := values.FieldByName(fieldName(k)); field.IsValid() {
			*k.Of(&limits) = field.Int()
		}
	}
	return limits
}

const (
	unlimited     = metastore.Unlimited
	unlimitedText = "unlimited"
)

// count is a limit of a number of things; 0 if it was not set.
type count int64

// UnmarshalText parses a number of at least 1; "unlimited" or -1 is no limit.
func (c *count) UnmarshalText(text []byte) error {
	n, err := parseLimit(string(text), 1)
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

// size is a limit of a number of bytes; 0 if it was not set.
type size int64

// UnmarshalText parses a number of at least 1, optionally with a unit such as MiB or
// MB; "unlimited" or -1 is no limit.
func (s *size) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range units {
		if before, found := strings.CutSuffix(number, u.name); found {
			number, unit = strings.TrimSuffix(before, " "), u.bytes
			break
		}
	}
	n, err := parseLimit(number, unit)
	if err != nil {
		return fmt.Errorf("want a size of at least 1 byte, such as 512MiB, or %s, not %q", unlimitedText, text)
	}
	*s = size(n)
	return nil
}

// String returns the size as UnmarshalText parses it, in the largest binary unit of
// which it is a multiple, or "" if it was not set.
func (s size) String() string {
	if s > 0 {
		for _, u := range slices.Backward(units[:binaryUnits]) {
			if int64(s)%u.bytes == 0 {
				return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
			}
		}
	}
	return count(s).String()
}

// binaryUnits is the number of units that are powers of 1024.
const binaryUnits = 5

// units are the units of sizes, the binary ones first.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15},
}

var errLimit = errors.New("invalid limit")

// parseLimit parses a number of units.
func parseLimit(text string, unit int64) (int64, error) {
	if unit == 1 && (text == unlimitedText || text == strconv.Itoa(unlimited)) {
		return unlimited, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return 0, errLimit
	}
	return n * unit, nil
}
