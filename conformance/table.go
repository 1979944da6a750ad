package conformance

import (
	"slices"
	"strconv"
	"strings"
)

// The headings of docs/protocol.md under which the rules stand.
const (
	baseURLs       = "Base URLs"
	operations     = "Operations"
	accessRules    = "Access"
	placeRules     = "Places"
	callersLimits  = "Limits of callers"
	namesAccounts  = "Names and accounts"
	unitsLimits    = "Units and limits"
	storing        = "Storing a blob"
	describing     = "Metadata"
	reading        = "Reading a blob"
	caching        = "Caching"
	uploading      = "Multipart uploads"
	copying        = "Copying and moving"
	listing        = "Listing blobs"
	changesRules   = "Changes"
	listAccounts   = "Listing accounts"
	sessions       = "Sessions"
	channels       = "Channels"
	figures        = "Figures and lists"
	micropayments  = "Micropayments"
	paidReading    = "Paid reads"
	jsonBodies     = "JSON"
	errorResponses = "Errors"
	localSafety    = "Local safety"
	faucetSection  = "Faucet"
	faultsSection  = "Faults"
)

// rows returns a case for each row of a table. Their names are name/ROW.
func rows[R any](name, section string, level Level, table []R, row func(R) string, check func(*trial, R)) []Case {
	cases := make([]Case, len(table))
	for i, r := range table {
		cases[i] = Case{Name: name + "/" + row(r), Section: section, Level: level, check: func(c *trial) { check(c, r) }}
	}
	return cases
}

// needing returns cases that are skipped without these facts.
func needing(cases []Case, needs ...need) []Case {
	for i := range cases {
		cases[i].needs = slices.Concat(cases[i].needs, needs)
	}
	return cases
}

// content returns n bytes without a repeated block.
func content(n int) string {
	var b strings.Builder
	x := uint32(2463534242)
	for b.Len() < n {
		x ^= x << 13 // Marsaglia, Xorshift RNGs (2003), section 3
		x ^= x >> 17
		x ^= x << 5
		b.Write([]byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)})
	}
	return b.String()[:n]
}

// itoa returns a number in decimal digits.
func itoa(n int64) string { return strconv.FormatInt(n, 10) }
