package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"sluice/access"
	"sluice/access/keys"
)

// printedKey is a key in JSON. Members without a value and limits that are the
// service's defaults are omitted; a limit of -1 is unlimited.
type printedKey struct {
	ID          string           `json:"id"`
	Secret      string           `json:"secret,omitempty"`
	S3          bool             `json:"s3,omitempty"` // it has an S3 secret
	S3Secret    string           `json:"s3Secret,omitempty"`
	State       string           `json:"state"`
	Scopes      []string         `json:"scopes"`
	AllAccounts bool             `json:"allAccounts"`
	Accounts    []string         `json:"accounts,omitempty"`
	Group       string           `json:"group"`
	Label       string           `json:"label,omitempty"`
	Limits      map[string]int64 `json:"limits"`
	Created     time.Time        `json:"created"`
	Expires     time.Time        `json:"expires,omitzero"`
	Revoked     time.Time        `json:"revoked,omitzero"`
}

// writeKeyJSON writes a key as one line of JSON.
func writeKeyJSON(w io.Writer, issued access.Issued) error {
	k := issued.Key
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(printedKey{
		ID:          k.ID,
		Secret:      issued.Credential,
		S3:          k.S3Secret != nil,
		S3Secret:    issued.S3Secret,
		State:       stateOf(k),
		Scopes:      k.Scopes,
		AllAccounts: k.Accounts == nil,
		Accounts:    k.Accounts,
		Group:       k.Group,
		Label:       k.Label,
		Limits:      k.Limits.Members(),
		Created:     k.Created,
		Expires:     k.Expires,
		Revoked:     k.Revoked,
	})
}

// writeKey writes a key as text, one line for each member.
func writeKey(w io.Writer, k keys.Key) error {
	accounts := "all"
	if k.Accounts != nil {
		accounts = printableList(k.Accounts)
	}
	s3 := ""
	if k.S3Secret != nil {
		s3 = "has a secret"
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"id", printable(k.ID)},
		{"state", stateOf(k)},
		{"scopes", printableList(k.Scopes)},
		{"accounts", accounts},
		{"S3", s3},
		{"group", printable(k.Group)},
		{"label", strconv.Quote(k.Label)},
		{"limits", limitsText(k.Limits)},
		{"created", timeText(k.Created)},
		{"expires", cmp.Or(timeText(k.Expires), "never")},
		{"revoked", timeText(k.Revoked)},
	} {
		if line[1] == "" || line[1] == `""` {
			continue
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return table.Flush()
}

// keyTable writes keys as a table, with a heading if there are any.
type keyTable struct {
	*tabwriter.Writer
	headed bool
}

func newKeyTable(w io.Writer) *keyTable {
	return &keyTable{Writer: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

func (t *keyTable) add(k keys.Key) error {
	if !t.headed {
		t.headed = true
		if err := printLine(t, "ID\tSTATE\tSCOPES\tACCOUNTS\tGROUP\tEXPIRES\tLABEL"); err != nil {
			return err
		}
	}
	accounts := "all"
	switch {
	case len(k.Accounts) == 1:
		accounts = printable(k.Accounts[0])
	case k.Accounts != nil:
		accounts = strconv.Itoa(len(k.Accounts))
	}
	group, expires := "-", "never" // "-": a group of its own
	if k.Group != k.ID {
		group = printable(k.Group)
	}
	if !k.Expires.IsZero() {
		expires = k.Expires.UTC().Format("2006-01-02T15:04Z")
	}
	_, err := fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%q\n", printable(k.ID), stateOf(k), printableList(k.Scopes), accounts, group, expires, k.Label)
	return err
}

// stateOf returns a key's state by this machine's clock.
func stateOf(k keys.Key) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case !k.Expires.IsZero() && !time.Now().Before(k.Expires):
		return "expired"
	default:
		return "active"
	}
}

// limitsText returns the limits as the flags that set them.
func limitsText(l keys.Limits) string {
	var parts []string
	for _, k := range keys.LimitKinds {
		limit := *k.Of(&l)
		text := count(limit).String()
		if k.Bytes {
			text = size(limit).String()
		}
		if text != "" {
			parts = append(parts, "--"+k.Flag()+" "+text)
		}
	}
	return strings.Join(parts, " ")
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// printable returns s, quoted if it is empty, has unprintable characters, or has
// characters that separate items.
func printable(s string) string {
	if q := strconv.Quote(s); s == "" || q != `"`+s+`"` || strings.ContainsAny(s, " ,") {
		return q
	}
	return s
}

func printableList(list []string) string {
	var texts []string
	for _, s := range list {
		texts = append(texts, printable(s))
	}
	return strings.Join(texts, ",")
}
