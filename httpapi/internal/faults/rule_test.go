package faults

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Rule{
		"PUT part 2%: drop-reply":       {"PUT", Part, 2_0000, 0, Fault{Kind: DropReply}},
		"drop-reply":                    {"", "", Whole, 0, Fault{Kind: DropReply}},
		":drop-reply":                   {"", "", Whole, 0, Fault{Kind: DropReply}},
		"  GET   blob first 3 :  cut 0": {"GET", Blob, Whole, 3, Fault{Kind: Cut}},
		"0.0001%: delay 1m30s":          {"", "", 1, 0, Fault{Kind: Delay, Delay: 90 * time.Second}},
		"use 12.5%: status 599":         {"", Use, 12_5000, 0, Fault{Kind: Status, Status: 599}},
		"100%: slow 10KiB":              {"", "", Whole, 0, Fault{Kind: Slow, Bytes: 10 << 10}},
		"POST: full-disk":               {"POST", "", Whole, 0, Fault{Kind: FullDisk}},
		"blob: expired-session":         {"", Blob, Whole, 0, Fault{Kind: ExpiredSession}},
		"cut 64 KiB":                    {"", "", Whole, 0, Fault{Kind: Cut, Bytes: 64 << 10}},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	const (
		selection = "want [METHOD] [OPERATION] [SHARE% | first N] before the colon, not "
		allowed   = ": methods are GET, HEAD, PUT, POST and DELETE, and operations accounts, blob, changes, channel, complete, info, list, part, session, upload and use"
		share     = ": want a share from 0.0001% to 100%, with at most four decimals"
	)
	for text, want := range map[string]string{
		"":                       "the fault is missing: " + wantFault,
		"PUT part:":              "the fault is missing: " + wantFault,
		"PUT part 2% drop-reply": `there is no fault "PUT": ` + wantFault,
		"drop":                   `there is no fault "drop": ` + wantFault,
		"put part: drop-reply":   selection + `"put"` + allowed,
		"part PUT: drop-reply":   selection + `"PUT"` + allowed,
		"2% part: drop-reply":    selection + `"part"` + allowed,
		"2% first 3: drop-reply": selection + `"first"` + allowed,
		"first: drop-reply":      selection + `"first"` + allowed,
		"first 0: drop-reply":    `first "0": want a whole number of at least 1`,
		"first -1: drop-reply":   `first "-1": want a whole number of at least 1`,
		"first x: drop-reply":    `first "x": want a whole number of at least 1`,
		"0%: drop-reply":         `"0%"` + share,
		"101%: drop-reply":       `"101%"` + share,
		"100.0001%: drop-reply":  `"100.0001%"` + share,
		"0.00001%: drop-reply":   `"0.00001%"` + share,
		"-1%: drop-reply":        `"-1%"` + share,
		".5%: drop-reply":        `".5%"` + share,
		"%: drop-reply":          `"%"` + share,
		"delay":                  `delay "": want a duration from 1ms to 10m, such as 500ms`,
		"delay 0s":               `delay "0s": want a duration from 1ms to 10m, such as 500ms`,
		"delay 11m":              `delay "11m": want a duration from 1ms to 10m, such as 500ms`,
		"status 200":             `status "200": want a status from 400 to 599`,
		"status 0404":            `status "0404": want a status from 400 to 599`,
		"status 600":             `status "600": want a status from 400 to 599`,
		"cut":                    `cut "": want a number of bytes, such as 0 or 64KiB`,
		"cut -1":                 `cut "-1": want a number of bytes, such as 0 or 64KiB`,
		"slow 0":                 `slow "0": want bytes a second, from 1 to 1GiB, such as 10KiB`,
		"slow 2GiB":              `slow "2GiB": want bytes a second, from 1 to 1GiB, such as 10KiB`,
		"drop-reply now":         `drop-reply has no value, but got "now"`,
		"GET: full-disk":         "full-disk is possible for PUT and POST of blob, channel, complete, part, session and upload only",
		"use: full-disk":         "full-disk is possible for PUT and POST of blob, channel, complete, part, session and upload only",
		"part: expired-session":  "expired-session is possible for use and blob only",
		strings.Repeat("x", 201): "a rule has at most 200 characters",
	} {
		if r, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("Parse(%q) = %+v\n got %v\nwant %s", text, r, err, want)
		}
	}
}

// FuzzParse checks that a rule is parsed as String writes it, and that it can apply to a request.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"PUT part 2%: drop-reply", "GET blob first 3: cut 64KiB", "0.5%: delay 1m30s", "status 503", "use: expired-session", "slow 1", "first 1: full-disk", ":", "%:", "first 9: x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		again, err := Parse(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %+v, and %q is %+v, %v", text, r, r, again, err)
		}
		if err := r.check(); err != nil {
			t.Errorf("%q applies to no request: %v", text, err)
		}
	})
}
