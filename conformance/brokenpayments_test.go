package conformance_test

import "net/http"

func brokenPayments() []breakage {
	sessions := matches{"POST", "/v1/sessions"}
	return []breakage{
		{"a read costs two", "^paid/", twice(matches{"GET", "/v1/blobs/"})},
		{"HEAD has no price", "^paid/", losing(heads, "Chunkset-Price")},
		{"the charge is not reported", "^paid/", losing(gets, "Chunksets-Charged")},
		{"paid responses may be cached", "^paid/", losing(gets, "Cache-Control")},
		{"Max-Chunksets is ignored", "^paid/", without(gets, "Max-Chunksets")},
		{"a read's greatest price is ignored", "^paid/", without(gets, "Max-Chunkset-Price")},
		{"a purchase's greatest price is ignored", "^pay/", without(sessions, "Max-Chunkset-Price")},
		{"tiny blobs reveal their ETag", "^paid/", answers(heads, func(a *answer, _ *http.Request) { a.header.Set("Etag", `"1-0"`) })},
		{"a stale payment buys", "^pay/", status(sessions, 409, 201)},
		{"stale payments are not returned", "^pay/", answers(sessions, func(a *answer, _ *http.Request) {
			a.edit(func(o map[string]any) { delete(o, "storedMicropayment") })
		})},
		{"a payment buys one more", "^(pay|sold)/", answers(sessions, func(a *answer, _ *http.Request) {
			a.edit(func(o map[string]any) {
				if n, ok := o["chunksetsTotal"].(float64); ok {
					o["chunksetsTotal"] = n + 1
				}
			})
		})},
		{"credit is not shown", "^(pay|channel)/", answers(matches{"GET", "/micropaymentchannels/"}, func(a *answer, _ *http.Request) {
			a.edit(func(o map[string]any) { o["credit"] = "0" })
		})},
		{"the refund is lost", "^channel/", answers(matches{"POST", "/close"}, func(a *answer, _ *http.Request) {
			a.edit(func(o map[string]any) { delete(o, "refund") })
		})},
		{"a deposit is added twice", "^channel/", twice(matches{"POST", "/deposit"})},
		{"close does nothing", "^channel/", swallowing(matches{"POST", "/close"}, 200, "{}")},
		{"a channel's sessions are reversed", "^channel/", entries(matches{"GET", "/micropaymentchannels/"}, "sessions", reversed)},
	}
}
