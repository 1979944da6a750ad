package conformance_test

import (
	"net/http"
	"strings"
)

// changes are requests that change places.
var changes = matches{"PATCH", "/v1/admin/places/"}

// losingValue returns a proxy that removes a member with this value from changes of places.
func losingValue(member string, value any) func(http.Handler) http.Handler {
	return bodies(changes, func(o map[string]any) {
		if o[member] == value {
			delete(o, member)
		}
	})
}

// cachedAs returns a proxy that replaces the Cache-Control that a place has.
func cachedAs(value string) func(http.Handler) http.Handler {
	return answers(gets, func(a *answer, _ *http.Request) {
		if strings.HasPrefix(a.header.Get("Cache-Control"), "private, no-cache") {
			a.header.Set("Cache-Control", value)
		}
	})
}

func brokenPlaces() []breakage {
	list, recorded := matches{"GET", "/v1/admin/places"}, matches{"GET", "/v1/admin/actions"}
	return []breakage{
		{"a block does nothing", "^place/blocked", losingValue("block", "order 7")},
		{"a block does not end", "^place/blocked", losingValue("block", "")},
		{"a blocked blob is forbidden", "^place/blocked", status(gets, 451, 403)},
		{"a blocked blob is absent for HEAD", "^place/blocked", status(heads, 451, 404)},
		{"a blocked blob can be copied", "^place/blocked", status(copies, 451, 200)},
		{"a block names nobody", "^place/blocked", losing(gets, "Link")},
		{"a block has no reason", "^place/blocked", answers(gets, func(a *answer, _ *http.Request) {
			a.setBody([]byte(strings.ReplaceAll(string(a.body), "order 7", "")))
		})},
		{"a block is of one name", "^place/blocked", query(changes, func(values map[string][]string) {
			if values["prefix"] != nil {
				values["blob"] = values["prefix"]
				delete(values, "prefix")
			}
		})},
		{"a blob's setting is for longer names", "^place/list", query(changes, func(values map[string][]string) {
			if values["blob"] != nil {
				values["prefix"] = values["blob"]
				delete(values, "blob")
			}
		})},
		{"everyone may open", "^place/opening", status(changes, 403, 200)},
		{"nobody may open", "^place/public", losingValue("mayOpen", true)},
		{"a permission does not end", "^place/public", losingValue("mayOpen", false)},
		{"reading opens lists", "^place/public", bodies(changes, func(o map[string]any) {
			if o["reads"] == "public" {
				o["lists"] = "public"
			}
		})},
		{"a public place has no list", "^place/public", losingValue("lists", "public")},
		{"a free place is paid", "^place/free", losingValue("reads", "free")},
		{"a free place may be kept", "^place/free", cachedAs("public, max-age=60")},
		{"a closed place may be kept", "^place/key", cachedAs("public, max-age=60")},
		{"a closed place is not closed", "^place/key", losingValue("reads", "key")},
		{"a place does not end the one above", "^place/key", losingValue("reads", "instance")},
		{"a setting cannot be removed", "^place/key", losingValue("reads", "")},
		{"places are reversed", "^place/list", entries(list, "places", reversed)},
		{"the list of places loses its last entry", "^place/list", entries(list, "places", withoutLast)},
		{"settings that are not known are ignored", "^place/refused", status(changes, 400, 200)},
		{"changes of places are not recorded", "^place/actions", entries(recorded, "actions", func([]any) []any { return []any{} })},
	}
}

// brokenPermission breaks a server for an account's administrator.
func brokenPermission() []breakage {
	return []breakage{{"an account's administrators block and permit", "^place/permission", status(changes, 403, 200)}}
}
