package e2e

import (
	"fmt"
	"net/url"
	"strings"
)

// answered records the open request's effect. It returns an error if there was no response, and the
// test fails if its status is not the wanted one.
func (a *sharer) answered(label string, r Response, err error, want int) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s of %q: %w", label, a.open.names, err)
	case r.Status != want:
		return fmt.Errorf("%s of %q: %v, want %d, the names have %+v", label, a.open.names, r, want, a.names)
	}
	for i, name := range a.open.names {
		a.names[name] = a.open.after[i]
	}
	a.open = nil
	return nil
}

// resolve checks that a request without a response has had its effect or none, and repeats it if
// that is possible.
func (a *sharer) resolve(u *unanswered) {
	a.T.Helper()
	none, whole := true, true
	found := make([]held, len(u.names))
	for i, name := range u.names {
		before, after := a.names[name], u.after[i]
		r := a.node().Do("HEAD", name, nil)
		if r.Status == 200 {
			found[i] = held{etag: r.Header.Get("ETag"), color: r.Header.Get("Blob-Meta-Color")}
		} else if r.Status != 404 && r.Status != 410 {
			a.T.Errorf("HEAD %s after a kill: %v", name, r)
		}
		found[i].expires = before.expires || after.expires
		if u.other && i == len(u.names)-1 {
			_, known := a.sent.Load(found[i].etag)
			whole = whole && (known || after.expires)
		} else {
			whole = whole && agrees(found[i], after)
		}
		none = none && agrees(found[i], before)
	}
	if !none && !whole {
		a.T.Errorf("after a kill %q have %+v: want all of %+v or nothing of it, the names had %+v", u.names, found, u.after, a.names)
		return
	}
	for i, name := range u.names {
		a.names[name] = found[i]
	}
	if u.again == nil {
		return
	}
	a.repeats++
	if status, err := u.again(a.node()); err != nil || status != 200 {
		a.T.Errorf("the request for %q, repeated after a kill: status %d, %v", u.names, status, err)
		return
	}
	for i, name := range u.names {
		a.names[name] = u.after[i]
		if err := a.read(name); err != nil {
			a.T.Errorf("after the repeated request: %v", err)
		}
	}
}

// agrees reports whether a name has the wanted content.
func agrees(found, want held) bool {
	return found.etag == want.etag && (found.color == want.color || want.color == "" || found.etag == "") || want.expires && found.etag == ""
}

// accountAndName returns the parts of BlobTarget's result.
func accountAndName(target string) (account, name string) {
	account, name, _ = strings.Cut(strings.TrimPrefix(target, "/v1/blobs/"), "/")
	name, err := url.PathUnescape(name)
	if err != nil {
		panic(err) // BlobTarget escapes
	}
	return account, name
}
