package access

import (
	"iter"
	"slices"
	"strings"

	"sluice/access/places"
)

// AccountRules are the rules for an account's blobs at one time.
type AccountRules struct {
	whole Rule           // without places
	of    *accountPlaces // nil: there are none
}

// At returns the rule for the blob of this name.
func (a AccountRules) At(name string) Rule {
	if a.of == nil {
		return a.whole
	}
	return a.of.at(name)
}

// Lists returns who may list all blobs below a prefix: ReadsPublic or ReadsKey.
func (a AccountRules) Lists(prefix string) Reads {
	if a.of == nil {
		return a.whole.Lists
	}
	return a.of.lists(prefix)
}

// Places returns the account's places with their settings, in any order.
func (a AccountRules) Places() iter.Seq2[places.Place, places.Settings] {
	return func(yield func(places.Place, places.Settings) bool) {
		if a.of == nil {
			return
		}
		for _, row := range a.of.rows {
			if !yield(row.Place, row.Settings) {
				return
			}
		}
	}
}

// Prefix returns the rule for the blobs with names that begin with a prefix, as far as no longer
// prefix and no blob has settings of its own.
func (a AccountRules) Prefix(prefix string) Rule {
	if a.of == nil {
		return a.whole
	}
	return a.of.underPrefixes(prefix)
}

// Settings returns a place's own settings.
func (a AccountRules) Settings(p places.Place) places.Settings {
	if a.of == nil {
		return places.Settings{}
	}
	return a.of.rows[placeKey{p.Name, p.Exact}].Settings
}

// placeKey is a place in its account.
type placeKey struct {
	name  string
	exact bool
}

// accountPlaces are an account's places, with the rule that results at each.
type accountPlaces struct {
	rows     map[placeKey]places.Row
	whole    Rule // of names that no prefix has
	prefixes []prefixRule
	exact    map[string]Rule
}

// prefixRule is the rule for the names with a prefix and with no longer one that has a rule.
// Prefixes are sorted (bytewise), so that those that begin with a string follow each other.
type prefixRule struct {
	prefix string
	rule   Rule
	above  int // the longest other prefix with which this one begins, by its index, or -1
	closed int // the first index from this one on with a prefix that not everybody may list
}

// newAccountPlaces returns an account's places on an instance with these reads.
func newAccountPlaces(rows map[placeKey]places.Row, instance Reads) *accountPlaces {
	of := rows[placeKey{}]
	guarded := of.Guard&(places.IgnoreLists|places.IgnorePolicies) != 0
	if guarded && instance == ReadsPublic {
		instance = ReadsKey
	}
	mayOpen := of.MayOpen && !guarded
	a := &accountPlaces{rows: rows, whole: Rule{Reads: instance, Lists: instance.Lists()}, exact: map[string]Rule{}}
	for key := range rows {
		if !key.exact {
			a.prefixes = append(a.prefixes, prefixRule{prefix: key.name, above: -1})
		}
	}
	slices.SortFunc(a.prefixes, func(x, y prefixRule) int { return strings.Compare(x.prefix, y.prefix) })
	for i := range a.prefixes {
		at := &a.prefixes[i]
		rule := a.whole
		if at.above = a.longest(i-1, at.prefix); at.above >= 0 {
			rule = a.prefixes[at.above].rule
		}
		at.rule = rule.with(rows[placeKey{at.prefix, false}].Settings, instance, mayOpen)
	}
	for i, closed := len(a.prefixes)-1, len(a.prefixes); i >= 0; i-- {
		if a.prefixes[i].rule.Lists != ReadsPublic {
			closed = i
		}
		a.prefixes[i].closed = closed
	}
	for key, row := range rows {
		if key.exact {
			a.exact[key.name] = a.underPrefixes(key.name).with(row.Settings, instance, mayOpen)
		}
	}
	return a
}

// with returns the rule above a place with the place's settings. A setting that opens the place
// beyond the instance's reads has an effect only if the operator lets the account do that.
func (r Rule) with(s places.Settings, instance Reads, mayOpen bool) Rule {
	choose := func(setting string, has, of Reads) Reads {
		wanted := Reads(setting)
		switch {
		case setting == "", wanted != ReadsInstance && wanted.Opener(of) && !mayOpen:
			return has
		case wanted == ReadsInstance:
			return of
		}
		return wanted
	}
	r.Reads = choose(s.Reads, r.Reads, instance)
	r.Lists = choose(s.Lists, r.Lists, instance.Lists())
	if s.Blocked != nil {
		r.Blocked = s.Blocked
	}
	return r
}

// longest returns the index of a name's longest prefix, which is at last or above it, or -1.
// No prefix behind last and before the name may be greater than it.
func (a *accountPlaces) longest(last int, name string) int {
	for last >= 0 && !strings.HasPrefix(name, a.prefixes[last].prefix) {
		last = a.prefixes[last].above
	}
	return last
}

// search returns where a name is among the prefixes, or where it would be.
func (a *accountPlaces) search(name string) (int, bool) {
	return slices.BinarySearchFunc(a.prefixes, name, func(x prefixRule, name string) int { return strings.Compare(x.prefix, name) })
}

// underPrefixes returns the rule that the longest prefix of a name makes.
func (a *accountPlaces) underPrefixes(name string) Rule {
	i, found := a.search(name)
	if !found {
		i--
	}
	if i = a.longest(i, name); i >= 0 {
		return a.prefixes[i].rule
	}
	return a.whole
}

// at returns a blob's rule.
func (a *accountPlaces) at(name string) Rule {
	if rule, ok := a.exact[name]; ok {
		return rule
	}
	return a.underPrefixes(name)
}

// lists returns who may list everything below a prefix.
func (a *accountPlaces) lists(prefix string) Reads {
	if lists := a.underPrefixes(prefix).Lists; lists != ReadsPublic {
		return lists
	}
	// The prefixes that begin with this one follow each other.
	if i, _ := a.search(prefix); i < len(a.prefixes) {
		if closed := a.prefixes[i].closed; closed < len(a.prefixes) && strings.HasPrefix(a.prefixes[closed].prefix, prefix) {
			return ReadsKey
		}
	}
	return ReadsPublic
}
