package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sluice/access/keys"
	"sluice/internal/units"
	"sluice/node"
)

// LimitFlags are flags that set limits, one for each of keys.LimitKinds.
type LimitFlags struct {
	// Values points to a struct with a field of type count or size for each flag.
	// newLimitFlags creates its type, because kong defines flags by struct fields.
	Values any `embed:""`
}

// NewLimitFlags returns flags for all limits.
func NewLimitFlags() LimitFlags {
	var fields []reflect.StructField
	for _, k := range keys.LimitKinds {
		typ := reflect.TypeFor[count]()
		if k.Bytes {
			typ = reflect.TypeFor[size]()
		}
		tag := fmt.Sprintf("name:%q placeholder:%q help:%q", k.Flag(), limitPlaceholder(k), limitHelp(k, "${whose}"))
		fields = append(fields, reflect.StructField{Name: fieldName(k), Type: typ, Tag: reflect.StructTag(tag)})
	}
	return LimitFlags{reflect.New(reflect.StructOf(fields)).Interface()}
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

// Limits returns the limits that were set. A limit that was not set is 0.
func (f LimitFlags) Limits() (limits keys.Limits) {
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

// limitList is the value of a flag with limits of several kinds. A kind that was not set is 0.
type limitList keys.Limits

// UnmarshalText parses limits, such as "requests-per-second=100,stored-bytes=1TiB"; "unlimited"
// alone stands for all of them.
func (l *limitList) UnmarshalText(text []byte) error {
	if string(text) == unlimitedText {
		*l = limitList(keys.NoLimits())
		return nil
	}
	var limits keys.Limits
	for pair := range strings.SplitSeq(string(text), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		i := slices.IndexFunc(keys.LimitKinds[:], func(k keys.LimitKind) bool { return k.Flag() == name })
		if i < 0 {
			return fmt.Errorf("want LIMIT=N,..., such as requests-per-second=100, not %q", pair)
		}
		limit, err := parseKind(keys.LimitKinds[i], value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*keys.LimitKinds[i].Of(&limits) = limit
	}
	*l = limitList(limits)
	return nil
}

// LimitText returns a limit as parseKind parses it, or "" if it is not set.
func LimitText(k keys.LimitKind, limit int64) string {
	if k.Bytes {
		return size(limit).String()
	}
	return count(limit).String()
}

// parseKind parses a limit of this kind.
func parseKind(k keys.LimitKind, text string) (int64, error) {
	var c count
	var s size
	if k.Bytes {
		err := s.UnmarshalText([]byte(text))
		return int64(s), err
	}
	err := c.UnmarshalText([]byte(text))
	return int64(c), err
}

// String returns the limits as UnmarshalText parses them. Quotas that are unlimited are omitted,
// unless stored bytes have a limit: another quota follows from it.
func (l limitList) String() string {
	limits := keys.Limits(l)
	if limits == keys.NoLimits() {
		return unlimitedText
	}
	var pairs []string
	for _, k := range keys.LimitKinds {
		switch limit := *k.Of(&limits); {
		case limit == 0, k.Quota() && limit == unlimited && limits.StoredBytes == unlimited:
		default:
			pairs = append(pairs, k.Flag()+"="+LimitText(k, limit))
		}
	}
	return strings.Join(pairs, ",")
}

// words returns the text with spaces, at which lines can end.
func (l limitList) words() string { return strings.ReplaceAll(l.String(), ",", ", ") }

// boundLimits is a target for limits. Those that a flag does not name have the profile's defaults.
type boundLimits struct {
	*Bound[limitList]
	inForce func() keys.Limits
}

func newBoundLimits(profile *node.Profile, to *limitList, hosted keys.Limits) boundLimits {
	inForce := func() keys.Limits {
		if *profile == node.Hosted {
			return hosted
		}
		return keys.NoLimits()
	}
	v := boundLimits{computed(to, func() limitList { return limitList(inForce()) }), inForce}
	v.byDefault.local, v.byDefault.hosted = unlimitedText, limitList(hosted).String()
	return v
}

func (v boundLimits) complete() { *v.to = limitList(keys.Limits(*v.to).Resolve(v.inForce())) }

// isRate reports whether callers without a key have a limit of this kind.
func isRate(k keys.LimitKind) bool { return !k.Quota() }

// noQuotas requires limits of rates only.
func noQuotas(limits *limitList) Check {
	return func(flag string) error {
		for _, k := range keys.LimitKinds {
			if all := keys.Limits(*limits); k.Quota() && *k.Of(&all) != unlimited {
				return fmt.Errorf("%s: %s: callers without a key have no quotas: want %s", flag, k.Flag(), limitNames(isRate))
			}
		}
		return nil
	}
}

// limitNames returns the names of limits for which is returns true.
func limitNames(is func(keys.LimitKind) bool) string {
	var names []string
	for _, k := range keys.LimitKinds {
		if is(k) {
			names = append(names, k.Flag())
		}
	}
	return strings.Join(names, ", ")
}
