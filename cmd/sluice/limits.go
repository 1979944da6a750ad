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

// limitFlags are flags that set limits, one for each of metastore.LimitKinds or only for
// those that are no quotas.
type limitFlags struct {
	// Values points to a structure with a field of the type count or size for each flag.
	// It is made by newLimitFlags, because kong reads flags off the fields of structures.
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

// limits returns the limits that were set. The others are 0, and Unlimited where there is
// no flag.
func (f limitFlags) limits() metastore.Limits {
	limits, values := metastore.NoLimits(), reflect.ValueOf(f.Values).Elem()
	for _, k := range metastore.LimitKinds {
		if field := values.FieldByName(fieldName(k)); field.IsValid() {
			*k.Of(&limits) = field.Int()
		}
	}
	return limits
}

// unlimited is the limit that nothing reaches, and how it is written.
const (
	unlimited     = metastore.Unlimited
	unlimitedText = "unlimited"
)

// count is a limit that is a number of things.
type count int64

// UnmarshalText reads a number from 1 on; -1 or "unlimited" is no limit.
func (c *count) UnmarshalText(text []byte) error {
	n, err := parseLimit(string(text), 1)
	if err != nil {
		return fmt.Errorf("want a number from 1 on, or %s, not %q", unlimitedText, text)
	}
	*c = count(n)
	return nil
}

// String gives the number as UnmarshalText reads it; "" for what was not chosen.
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

// size is a limit that is a number of bytes.
type size int64

// UnmarshalText reads a number from 1 on, with or without a unit such as MiB or
// MB; -1 or "unlimited" is no limit.
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
		return fmt.Errorf("want a size from 1 byte on, such as 512MiB, or %s, not %q", unlimitedText, text)
	}
	*s = size(n)
	return nil
}

// String gives the size as UnmarshalText reads it, in the greatest unit of 1024
// that it is a multiple of; "" for what was not chosen.
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

// binaryUnits is how many of the units are powers of 1024.
const binaryUnits = 5

// units are what sizes may be given in.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"PiB", 1 << 50},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"PB", 1e15},
}

var errLimit = errors.New("not a limit")

// parseLimit reads a number of units.
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
