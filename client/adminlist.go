package client

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/wire"
)

// adminPageSize is the number of entries that a page for administrators may have: some are large.
const adminPageSize = 100

// maxSubject bounds an action's subject, in bytes: an account and a name.
const maxSubject = 4 << 10

// orderedList is a list with ordered entries.
type orderedList[Page, E any] struct {
	name  string // of the entries
	path  string
	limit int // entries that a page may have; requested unless it is the greatest
	query url.Values
	of    func(*Page) (entries []E, next string)
	at    func(*E) string        // a text after which the next page begins
	order func(before, e *E) int // negative: e may follow; nil: in the order of at
	check func(*E) error

	// sparse means that a page may have no entries, and a next that is in the order of at reversed.
	sparse bool
	// opaque means that a page may have no entries, and a next that is no entry's at.
	opaque bool
}

// adminList is a list for administrators, below /v1/admin/.
func adminList[Page, E any](ctx context.Context, c *Client, path string, l orderedList[Page, E]) iter.Seq2[E, error] {
	l.name, l.path, l.limit = path, "/v1/admin/"+path, adminPageSize
	return l.all(ctx, c)
}

// maxEmptyPages bounds the pages without entries of an opaque list.
const maxEmptyPages = 10

// all returns the entries of all pages, up to the first error.
func (l orderedList[Page, E]) all(ctx context.Context, c *Client) iter.Seq2[E, error] {
	if l.order == nil {
		l.order = func(before, e *E) int { return strings.Compare(l.at(before), l.at(e)) }
	}
	first := func() (*request, func(*Page) error) {
		r := newRequest("list "+l.name, http.MethodGet, l.path, readOnly)
		if l.limit < wire.MaxPageSize {
			r.query.Set("limit", strconv.Itoa(l.limit))
		}
		for name, values := range l.query {
			r.query[name] = values
		}
		r.maxJSON = maxPageJSON
		var last *E
		after, empty := "", 0
		return r, func(page *Page) (err error) {
			if list, _ := l.of(page); len(list) == 0 {
				if empty++; empty > maxEmptyPages {
					return invalid(l.name, "has nothing on %d pages", empty)
				}
			}
			last, after, err = l.checkPage(page, last, after)
			return err
		}
	}
	entries := func(page *Page) iter.Seq[E] {
		list, _ := l.of(page)
		return slices.Values(list)
	}
	return pages(ctx, c, first, entries, func(page *Page) string { _, next := l.of(page); return next })
}

// checkPage returns an error unless a page can follow one with a last entry, or nil, and a next.
func (l orderedList[Page, E]) checkPage(page *Page, last *E, after string) (end *E, next string, err error) {
	list, next := l.of(page)
	if len(list) > l.limit {
		return nil, "", invalid(l.name, "has %d entries, and %d were requested", len(list), l.limit)
	}
	for i := range list {
		if err := l.check(&list[i]); err != nil {
			return nil, "", err
		}
		if last != nil && l.order(last, &list[i]) >= 0 || l.sparse && after != "" && l.at(&list[i]) >= after {
			return nil, "", invalid(l.name, "has %s, which is not after %s", shown(l.at(&list[i])), shown(after))
		}
		last = &list[i]
	}
	switch {
	case next == "":
	case l.opaque:
		return last, next, checkLength("next", next, maxSubject)
	case l.sparse && (after != "" && next >= after || last != nil && next > l.at(last)):
		return nil, "", invalid("next", "is %s, which is not after %s", shown(next), shown(after))
	case !l.sparse && (len(list) == 0 || next != l.at(last)):
		return nil, "", invalid("next", "is %s, and not the page's last entry", shown(next))
	}
	return last, next, nil
}

// none is the result of a request without one.
type none struct{}

// adminCall sends a request below /v1/admin/ with a JSON body, unless it is nil, and returns the
// response, which check accepts. Errors name the operation. set, which may be nil, changes the
// request.
func adminCall[Out any](ctx context.Context, c *Client, operation, method, path string, in any, set func(*request), check func(*Out) error) (out Out, err error) {
	if slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "" || part == "." || part == ".." }) {
		return out, fmt.Errorf("client: %w: %q cannot be part of a path", ErrInvalid, path)
	}
	s := idempotent
	if method == http.MethodGet {
		s = readOnly
	}
	r := newRequest(operation, method, "/v1/admin/"+path, s)
	if err := r.setJSON(in); err != nil {
		return out, err
	}
	if set != nil {
		set(r)
	}
	if check == nil {
		_, err = c.call(ctx, r, nil)
		return out, err
	}
	r.check = func() error { return check(&out) }
	if _, err = c.call(ctx, r, &out); err != nil {
		return *new(Out), err
	}
	return out, nil
}

// checkSame returns err, or an error if a response has another thing than the requested one.
func checkSame(got, want string, err error) error {
	if err == nil && got != want {
		err = invalid("id", "is %s, and %s was requested", shown(got), shown(want))
	}
	return err
}

func checkKey(k *wire.Key) error {
	for _, g := range k.Grants {
		for _, word := range slices.Concat(g.Scopes, g.Accounts) {
			if err := checkWord("grants", word, maxWord); err != nil {
				return err
			}
		}
		if err := checkLength("prefix", g.Prefix, maxSubject); err != nil {
			return err
		}
	}
	return cmp.Or(checkID("id", k.ID), checkWord("state", k.State, maxWord), checkLength("label", k.Label, maxWord), checkID("group", k.Group),
		checkLimits("limits", k.Limits, -1), checkID("etag", k.ETag))
}

func checkIssued(k *wire.IssuedKey) error {
	return cmp.Or(checkKey(&k.Key), checkWord("secret", k.Secret, maxWord), checkWord("s3Secret", k.S3Secret, maxWord), checkLength("remedy", k.Remedy, maxSentence))
}

func checkGroup(g *wire.Group) error {
	return cmp.Or(checkID("group", g.Group), checkLimits("limits", g.Limits, -1), checkLimits("effective", g.Effective, -1), checkLimits("used", g.Used, 0), checkID("etag", g.ETag))
}

func checkLimits(member string, limits map[string]int64, least int64) error {
	for name, n := range limits {
		if err := checkWord(member, name, maxWord); err != nil {
			return err
		}
		if n < least {
			return invalid(member, "has %d", n)
		}
	}
	return nil
}

func checkAlias(a *wire.Alias) error {
	return cmp.Or(checkID("bucket", a.Bucket), checkID("account", a.Account))
}

func checkDamage(d *wire.Damage) error {
	for _, b := range d.Blobs {
		if err := cmp.Or(checkID("account", b.Account), checkName("name", b.Name), checkVersion(b.Version)); err != nil {
			return err
		}
	}
	return cmp.Or(checkID("content", d.Content), checkSize("part", int64(d.Part), maxParts), checkSize("offset", d.Offset, maxBlobSize), checkSize("size", d.Size, maxBlobSize),
		checkSize("damagedBytes", d.Bytes, maxBlobSize), checkLength("object", d.Object, maxSubject), checkLength("reason", d.Reason, maxSentence))
}

func checkTask(t *wire.Task) error {
	if last := t.Last; last != nil {
		if err := cmp.Or(checkSize("handled", last.Handled, math.MaxInt64), checkLength("error", last.Error, maxSentence), checkLength("node", last.Node, maxWord)); err != nil {
			return err
		}
	}
	if due := t.Due; due != nil {
		if err := cmp.Or(checkSize("versions", due.Versions, math.MaxInt64), checkSize("bytes", due.Bytes, math.MaxInt64)); err != nil {
			return err
		}
	}
	return cmp.Or(checkID("task", t.Task), checkLength("reason", t.Reason, maxSentence))
}

func checkNode(n *wire.Node) error {
	return cmp.Or(checkLength("name", n.Name, maxWord), checkLength("version", n.Version, maxWord), checkLength("reason", n.Reason, maxSentence))
}

// checkEach returns an error if a list is too long, or check refuses an entry.
func checkEach[E any](member string, list []E, check func(*E) error) error {
	if len(list) > wire.MaxPageSize {
		return invalid(member, "has %d entries, more than %d", len(list), wire.MaxPageSize)
	}
	for i := range list {
		if err := check(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkPlace(p *wire.Place) error {
	if p.Prefix != "" && p.Blob != "" {
		return invalid("blob", "has a prefix, too")
	}
	return cmp.Or(checkID("account", p.Account), checkLength("prefix", p.Prefix, maxSubject), checkLength("blob", p.Blob, maxSubject),
		checkWord("reads", p.Reads, maxWord), checkWord("lists", p.Lists, maxWord), checkBlock(p.Blocked))
}

func checkBlock(b *wire.Block) error {
	if b == nil {
		return nil
	}
	return cmp.Or(checkLength("reason", b.Reason, maxSentence), checkWord("by", b.By, maxWord))
}

func checkAction(a *wire.Action) error {
	for _, account := range a.Accounts {
		if err := checkID("accounts", account); err != nil {
			return err
		}
	}
	return cmp.Or(checkID("id", a.ID), checkWord("key", a.Key, maxWord), checkWord("group", a.Group, maxWord), checkLength("from", a.From, maxSentence),
		checkWord("action", a.Action, maxWord), checkLength("subject", a.Subject, maxSubject))
}
