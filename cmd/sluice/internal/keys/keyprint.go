package keys

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"sluice/access/keys"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/wire"
)

// keyFacts returns a key's names and values.
func keyFacts(k wire.Key) [][2]string {
	s3, label := "", ""
	if k.S3 {
		s3 = "has a secret"
	}
	if k.Label != "" {
		label = strconv.Quote(k.Label)
	}
	return slices.Concat([][2]string{
		{"id", printable(k.ID)},
		{"state", k.State},
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
func grantFacts(grants []wire.Grant) (facts [][2]string) {
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
func keyCells(k wire.Key) []string {
	scopes, accounts := "several grants", accountsText(k.Grants)
	if len(k.Grants) == 1 {
		scopes = printableList(k.Grants[0].Scopes)
		if prefix := k.Grants[0].Prefix; prefix != "" {
			accounts += "/" + printable(prefix)
		}
	}
	group, expires := "-", "never" // "-": a group of its own
	if k.Group != k.ID {
		group = printable(k.Group)
	}
	if !k.Expires.IsZero() {
		expires = k.Expires.UTC().Format("2006-01-02T15:04Z")
	}
	return []string{printable(k.ID), k.State, scopes, accounts, group, expires, strconv.Quote(k.Label)}
}

// accountsText returns the account of all grants, or how many they have.
func accountsText(grants []wire.Grant) string {
	var accounts []string
	for _, g := range grants {
		if g.Accounts == nil {
			return "all"
		}
		accounts = append(accounts, g.Accounts...)
	}
	slices.Sort(accounts)
	if accounts = slices.Compact(accounts); len(accounts) == 1 {
		return printable(accounts[0])
	}
	return strconv.Itoa(len(accounts))
}

// limitsText returns limits, by their members, as the flags that set them.
func limitsText(limits map[string]int64) string {
	var parts []string
	for _, k := range keys.LimitKinds {
		if text := settings.LimitText(k, limits[k.Member()]); text != "" {
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
