package main

import (
	"fmt"
	"slices"
	"strings"

	"sluice/access/keys"
	"sluice/node"
)

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

// limitText returns a limit as parseKind parses it, or "" if it is not set.
func limitText(k keys.LimitKind, limit int64) string {
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
			pairs = append(pairs, k.Flag()+"="+limitText(k, limit))
		}
	}
	return strings.Join(pairs, ",")
}

// words returns the text with spaces, at which lines can end.
func (l limitList) words() string { return strings.ReplaceAll(l.String(), ",", ", ") }

// boundLimits is a target for limits. Those that a flag does not name have the profile's defaults.
type boundLimits struct {
	*bound[limitList]
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
func noQuotas(limits *limitList) check {
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
