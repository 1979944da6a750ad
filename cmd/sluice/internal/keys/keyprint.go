package keys

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/access"
	"sluice/access/keys"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
)

// PrintedKey is a key in JSON. Members without a value and limits that are the
// service's defaults are omitted; a limit of -1 is unlimited.
type PrintedKey struct {
	ID       string           `json:"id"`
	Secret   string           `json:"secret,omitempty"`
	S3       bool             `json:"s3,omitempty"` // it has an S3 secret
	S3Secret string           `json:"s3Secret,omitempty"`
	State    string           `json:"state"`
	Grants   []keys.Grant     `json:"grants"`
	Group    string           `json:"group"`
	Label    string           `json:"label,omitempty"`
	Limits   map[string]int64 `json:"limits"`
	Created  time.Time        `json:"created"`
	Expires  time.Time        `json:"expires,omitzero"`
	Revoked  time.Time        `json:"revoked,omitzero"`
}

func newPrintedKey(issued access.Issued) PrintedKey {
	k := issued.Key
	return PrintedKey{
		ID: k.ID, Secret: issued.Credential, S3: k.S3Secret != nil, S3Secret: issued.S3Secret, State: stateOf(k), Grants: k.Grants,
		Group: k.Group, Label: k.Label, Limits: k.Limits.Members(), Created: k.Created, Expires: k.Expires, Revoked: k.Revoked,
	}
}

// keyFacts returns a key's names and values.
func keyFacts(k keys.Key) [][2]string {
	s3, label := "", ""
	if k.S3Secret != nil {
		s3 = "has a secret"
	}
	if k.Label != "" {
		label = strconv.Quote(k.Label)
	}
	return slices.Concat([][2]string{
		{"id", printable(k.ID)},
		{"state", stateOf(k)},
	}, grantFacts(k.Grants), [][2]string{
		{"S3", s3},
		{"group", printable(k.Group)},
		{"label", label},
		{"limits", limitsText(k.Limits)},
		{"created", cli.TimeText(k.Created)},
		{"expires", cmp.Or(cli.TimeText(k.Expires), "never")},
		{"revoked", cli.TimeText(k.Revoked)},
	})
}

// grantFacts returns one grant's parts, or several grants as the flags that set them.
func grantFacts(grants []keys.Grant) (facts [][2]string) {
	if len(grants) != 1 {
		for _, g := range grants {
			for _, text := range grantTexts(g) {
				facts = append(facts, [2]string{"grant", strconv.Quote(text)})
			}
		}
		return facts
	}
	g, accounts := grants[0], "all"
	if g.Accounts != nil {
		accounts = printableList(g.Accounts)
	}
	facts = [][2]string{{"scopes", printableList(g.Scopes)}, {"accounts", accounts}}
	if g.Prefix != "" {
		facts = append(facts, [2]string{"prefix", printable(g.Prefix)})
	}
	return facts
}

// keyCells returns a key as a row of a table.
func keyCells(k keys.Key) []string {
	scopes, accounts := "several grants", strconv.Itoa(len(k.Grants))
	if len(k.Grants) == 1 {
		g := k.Grants[0]
		scopes, accounts = printableList(g.Scopes), "all"
		switch {
		case len(g.Accounts) == 1:
			accounts = printable(g.Accounts[0])
		case g.Accounts != nil:
			accounts = strconv.Itoa(len(g.Accounts))
		}
		if g.Prefix != "" {
			accounts += "/" + printable(g.Prefix)
		}
	}
	group, expires := "-", "never" // "-": a group of its own
	if k.Group != k.ID {
		group = printable(k.Group)
	}
	if !k.Expires.IsZero() {
		expires = k.Expires.UTC().Format("2006-01-02T15:04Z")
	}
	return []string{printable(k.ID), stateOf(k), scopes, accounts, group, expires, strconv.Quote(k.Label)}
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
		if text := settings.LimitText(k, *k.Of(&l)); text != "" {
			parts = append(parts, "--"+k.Flag()+" "+text)
		}
	}
	return strings.Join(parts, " ")
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
