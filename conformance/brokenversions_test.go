package conformance_test

import (
	"net/http"
	"strings"
)

// anyState returns a proxy that takes the conditions from changes which have some.
func anyState(of matches) func(http.Handler) http.Handler {
	return requests(of, func(r *http.Request) {
		if r.Header.Get("If-Match") != "" {
			r.Header.Set("If-Match", "*")
		}
	})
}

// brokenVersions breaks a local instance.
func brokenVersions() []breakage {
	const path = "/v1/versions/"
	reads, heads, copies, deletes, lists := matches{"GET", path}, matches{"HEAD", path}, matches{"POST", path}, matches{"DELETE", path}, matches{"GET", "/v1/versions"}
	patches := matches{"PATCH", path}
	settings, recorded := matches{"PUT", "/v1/admin/versions/"}, matches{"GET", "/v1/admin/actions"}
	rules, previews := matches{"PUT", "/v1/admin/rules/"}, matches{"POST", "/v1/admin/rules/"}
	header := func(name, from, to string) func(http.Handler) http.Handler {
		return answers(reads, func(a *answer, _ *http.Request) { a.header.Set(name, strings.Replace(a.header.Get(name), from, to, 1)) })
	}
	return []breakage{
		{"a version is the current one", "^version/(kept|is-read)", requests(reads, func(r *http.Request) {
			if parts := strings.SplitN(r.URL.EscapedPath(), "/", 6); len(parts) == 6 {
				r.URL.Path, r.URL.RawPath = "/v1/blobs/"+parts[3]+"/"+parts[5], ""
			}
		})},
		{"nothing is kept", "^version/(kept|restore)", bodies(settings, func(o map[string]any) { o["keep"] = "off" })},
		{"keeping does not end", "^version/settings", bodies(settings, func(o map[string]any) { o["keep"] = "on" })},
		{"a number is ignored", "^version/settings", bodies(settings, func(o map[string]any) { delete(o, "most") })},
		{"unknown settings are accepted", "^version/setting-refused", status(settings, 400, 200)},
		{"conditions of settings are ignored", "^version/administration", anyState(settings)},
		{"settings are not recorded", "^version/administration", entries(recorded, "actions", func([]any) []any { return []any{} })},
		{"conditions of keys are ignored", "^admin/key", anyState(matches{"PATCH", "/v1/admin/keys/"})},
		{"conditions of groups are ignored", "^admin/groups", anyState(matches{"PATCH", "/v1/admin/groups/"})},
		{"versions do not count", "^version/kept", entries(matches{"GET", "/v1/accounts"}, "accounts", func([]any) []any { return []any{} })},
		{"writes have no version", "^version/kept", losing(puts, "Blob-Version")},
		{"deletions have no version", "^version/kept", losing(matches{"DELETE", "/v1/blobs/"}, "Blob-Version")},
		{"moves have no version", "^version/move", losing(matches{"POST", "/v1/blobs/"}, "Blob-Version")},
		{"uploads have no version", "^version/move", losing(completes, "Blob-Version")},
		{"a mark is an absent version", "^version/kept", losing(reads, "Blob-Deleted")},
		{"a mark is an empty blob", "^version/kept", status(reads, 404, 200)},
		{"caches may keep a version", "^version/kept", header("Cache-Control", "private", "public")},
		{"ranges are ignored", "^version/is-read", without(reads, "Range")},
		{"conditions are ignored", "^version/is-read", without(reads, "If-Match")},
		{"a version is never 304", "^version/is-read", without(reads, "If-None-Match")},
		{"HEAD has no properties", "^version/is-read", losing(heads, "Content-Type")},
		{"malformed ids are absent", "^version/malformed", status(reads, 400, 404)},
		{"a restore does nothing", "^version/restore", swallowing(copies, 200, `{}`)},
		{"a restore ignores its conditions", "^version/restore", bodies(copies, func(o map[string]any) { delete(o, "ifNoneMatch") })},
		{"a mark is restored", "^version/restore", status(copies, 404, 200)},
		{"a copy ignores the conditions on the version", "^version/copy", without(copies, "If-Match")},
		{"a version is moved", "^version/copy", status(copies, 400, 200)},
		{"a lock is not stored", "^version/lock$", swallowing(patches, 200, `{}`)},
		{"a lock ignores its conditions", "^version/lock$", without(patches, "If-Match")},
		{"a locked version goes", "^version/lock$", status(deletes, 403, 204)},
		{"a lock is shortened", "^version/lock$", status(patches, 403, 200)},
		{"a bypass is refused", "^version/lock$", without(patches, "Bypass-Governance")},
		{"a lock is not shown", "^version/lock$", losing(heads, "Blob-Retain-Mode")},
		{"a lock is not listed", "^version/lock$", entries(lists, "versions", func([]any) []any { return []any{} })},
		{"a stored lock is lost", "^version/lock-of", without(puts, "Blob-Retain-Mode", "Blob-Retain-Until")},
		{"locks are lost", "^version/lock-of", status(settings, 409, 200)},
		{"a version stays", "^version/delete", swallowing(deletes, 204, "")},
		{"a deletion ignores its conditions", "^version/delete", without(deletes, "If-Match")},
		{"versions are reversed", "^version/list", entries(lists, "versions", reversed)},
		{"the list loses its last version", "^version/list", entries(lists, "versions", withoutLast)},
		{"rules are not stored", "^rules/administration", bodies(rules, func(o map[string]any) { o["rules"] = []any{} })},
		{"rules stay", "^rules/administration", swallowing(matches{"DELETE", "/v1/admin/rules/"}, 204, "")},
		{"conditions of rules are ignored", "^rules/administration", anyState(rules)},
		{"unknown rules are accepted", "^rules/refused", status(rules, 400, 200)},
		{"rules are not recorded", "^rules/administration", entries(recorded, "actions", func([]any) []any { return []any{} })},
		{"accounts with rules are not listed", "^rules/administration", entries(matches{"GET", "/v1/admin/rules"}, "accounts", func([]any) []any { return []any{} })},
		{"webhooks are created off", "^webhooks/administration", swallowing(matches{"GET", "/v1/admin/webhooks/"}, 200, `{"state": "off"}`)},
		{"conditions of webhooks are ignored", "^webhooks/administration", anyState(matches{"PATCH", "/v1/admin/webhooks/"})},
		{"webhooks stay on", "^webhooks/administration", bodies(matches{"PATCH", "/v1/admin/webhooks/"}, func(o map[string]any) { delete(o, "on") })},
		{"secrets are not replaced", "^webhooks/administration", bodies(matches{"PATCH", "/v1/admin/webhooks/"}, func(o map[string]any) { delete(o, "newSecret") })},
		{"webhooks are not listed", "^webhooks/administration", entries(matches{"GET", "/v1/admin/webhooks"}, "webhooks", func([]any) []any { return []any{} })},
		{"a test is always accepted", "^webhooks/administration", swallowing(matches{"POST", "/v1/admin/webhooks/"}, 200, `{"at": "2026-01-01T00:00:00Z", "status": 200}`)},
		{"webhooks stay", "^webhooks/administration", swallowing(matches{"DELETE", "/v1/admin/webhooks/"}, 204, "")},
		{"any webhook is accepted", "^webhooks/refused", status(matches{"POST", "/v1/admin/webhooks"}, 400, 201)},
		{"a preview finds nothing", "^rules/preview", swallowing(previews, 200, `{"looked": 0, "taken": {}}`)},
		{"a preview ignores the rules", "^rules/preview", bodies(previews, func(o map[string]any) { delete(o, "rules") })},
		{"afterVersion is ignored", "^version/list", query(lists, func(values map[string][]string) { delete(values, "afterVersion") })},
		{"the delimiter is ignored", "^version/list", query(lists, func(values map[string][]string) { delete(values, "delimiter") })},
	}
}
