package e2e

import (
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// sharedContent describes a content that was sent.
type sharedContent struct {
	seed uint64
	size int
}

// held is a name's content.
type held struct {
	etag    string // "" if there is no blob
	color   string // of its metadata; "" if it is not known
	expires bool   // it may have expired at any time since
}

// unanswered is a request without a response: its names, and each name's state if it has had its
// effect.
type unanswered struct {
	names []string
	after []held
	other bool                          // the last name may have any content that was sent
	again func(on *Server) (int, error) // has the same effect if it is sent once more; may be nil
}

const (
	sharerCount = 8
	sharedNames = 5 // in each of a sharer's two accounts
)

// sharing is common to Sharers.
type sharing struct {
	T       testing.TB
	Nodes   []*Server
	sent    sync.Map // every content by its ETag
	repeats int      // requests that were sent again after a kill
}

// sharer is one of Sharers. It sends one request at a time.
type sharer struct {
	*sharing
	number int
	random *rand.Rand
	names  map[string]held // by the target
	begun  time.Time       // when the last request was sent
	open   *unanswered
}

// node returns a node for a request.
func (a *sharer) node() *Server { return a.Nodes[a.random.IntN(len(a.Nodes))] }

// sharerAccount returns the name of one of a sharer's two accounts.
func sharerAccount(number, i int) string { return fmt.Sprintf("sharer-%d-%d", number, i) }

// target returns the target of one of a sharer's names.
func (a *sharer) target(of int) string {
	return BlobTarget(sharerAccount(of, a.random.IntN(2)), fmt.Sprint("name ", a.random.IntN(sharedNames)))
}

// step sends a random request. It returns an error if there is no response.
func (a *sharer) step() error {
	a.begun = time.Now()
	target := a.target(a.number)
	switch n := a.random.IntN(100); {
	case n < 8:
		return a.put(target)
	case n < 10:
		return a.upload(target)
	case n < 18:
		return a.remove(target)
	case n < 28:
		return a.read(target)
	case n < 45:
		return a.copyOwn(a.target(a.number), target)
	case n < 75:
		return a.copyOther(a.target((a.number+1+a.random.IntN(sharerCount-1))%sharerCount), target)
	case n < 80:
		return a.copyOwn(target, target)
	default:
		return a.move(a.target(a.number), target)
	}
}

// nvme is the table of the CRC-64/NVME (NVM Express NVM Command Set Specification 1.0, 5.2.1.3.4).
var nvme = crc64.MakeTable(0x9a6c9329ac4bc9b5)

// content returns a new content, of a size that is stored inline, as one object or as several.
func (a *sharer) content() (body []byte, etag string) {
	sizes := []int{0, 10, 100, 4 << 10, 4 << 10, 40 << 10, 40 << 10, 130 << 10, 1<<20 + 1}
	c := sharedContent{a.random.Uint64(), sizes[a.random.IntN(len(sizes))]}
	body = Content(c.seed, c.size)
	etag = fmt.Sprintf(`"%x-%016x"`, c.size, crc64.Checksum(body, nvme))
	a.sent.Store(etag, c)
	return body, etag
}

func (a *sharer) color() string { return fmt.Sprint("color ", a.random.Uint32()) }

func (a *sharer) put(target string) error {
	body, etag := a.content()
	next := held{etag: etag, color: a.color()}
	h := []string{"Blob-Meta-Color", next.color}
	want := 204
	if have := a.names[target]; !have.expires && a.random.IntN(5) == 0 {
		h = append(h, "If-None-Match", "*")
		if have.etag != "" {
			want, next = 412, have
		}
	}
	a.open = &unanswered{names: []string{target}, after: []held{next}}
	r, err := a.node().Try("PUT", target, body, h...)
	return a.answered("PUT", r, err, want)
}

func (a *sharer) upload(target string) error {
	body, etag := a.content()
	account, name := accountAndName(target)
	part := max(1, len(body)/(1+a.random.IntN(3)))
	on := a.node()
	begin := AsJSON(a.T, map[string]any{"rawAccount": account, "rawBlobName": name, "rawPartSize": part})
	a.open = &unanswered{names: []string{target}, after: []held{a.names[target]}}
	r, err := on.Try("POST", "/v1/multipart-uploads", begin)
	if err != nil {
		return a.answered("begin", r, err, 200)
	}
	id := Text(a.T, r.Object(a.T), "uploadId")
	for i := 0; i*part < len(body); i++ {
		for range 1 + a.random.IntN(2) { // some are sent twice
			r, err := on.Try("PUT", PartTarget(id, i), body[i*part:min(len(body), (i+1)*part)])
			if err != nil || r.Status != 200 {
				return a.answered("part", r, err, 200)
			}
		}
	}
	complete := func(on *Server) (int, error) {
		r, err := on.Try("POST", "/v1/multipart-uploads/"+id+"/complete", nil)
		return r.Status, err
	}
	a.open = &unanswered{names: []string{target}, after: []held{{etag: etag}}, again: complete}
	r, err = on.Try("POST", "/v1/multipart-uploads/"+id+"/complete", nil)
	return a.answered("complete", r, err, 200)
}

func (a *sharer) remove(target string) error {
	a.open = &unanswered{names: []string{target}, after: []held{{}}}
	r, err := a.node().Try("DELETE", target, nil)
	return a.answered("DELETE", r, err, 204)
}

// read checks a name's bytes and metadata.
func (a *sharer) read(target string) error {
	have := a.names[target]
	r, err := a.node().Try("GET", target, nil)
	switch {
	case err != nil:
		return err
	case (have.etag == "" || have.expires) && (r.Status == 404 || r.Status == 410):
		return nil
	case r.Status != 200 || r.Header.Get("ETag") != have.etag:
		return fmt.Errorf("GET %s: %v with the ETag %s, want %+v", target, r, r.Header.Get("ETag"), have)
	case have.color != "" && r.Header.Get("Blob-Meta-Color") != have.color:
		return fmt.Errorf("GET %s: the color is %q, want %+v", target, r.Header.Get("Blob-Meta-Color"), have)
	}
	sent, _ := a.sent.Load(have.etag)
	if c := sent.(sharedContent); Digest(r.Body) != Digest(Content(c.seed, c.size)) {
		return fmt.Errorf("GET %s: the %d bytes are not those that were stored", target, len(r.Body))
	}
	return nil
}

// copyOwn copies a name of its own. Its content is known.
func (a *sharer) copyOwn(source, target string) error {
	have := a.names[source]
	if have.expires {
		return a.read(source)
	}
	body, next := a.copyBody(target, have)
	want := 200
	switch {
	case have.etag == "":
		want, next = 404, a.names[target]
	case body["ifNoneMatch"] != nil && a.names[target].etag != "":
		want, next = 412, a.names[target]
	}
	send := func(on *Server) (Response, error) {
		return on.Try("POST", source, AsJSON(a.T, body), "Content-Type", "application/json")
	}
	a.open = &unanswered{names: []string{target}, after: []held{next}}
	if want == 200 && body["ifNoneMatch"] == nil && !next.expires {
		a.open.again = func(on *Server) (int, error) {
			r, err := send(on)
			return r.Status, err
		}
	}
	r, err := send(a.node())
	if next.expires && r.Status == 400 {
		a.open = nil // the request has waited for longer than the expiry
		return nil
	}
	return a.answered("copy", r, err, want)
}

// sourceChanged reports whether a copy is refused because the source was replaced again and again.
func sourceChanged(r Response) bool {
	return r.Status == 503 && strings.Contains(string(r.Body), `"overloaded"`)
}

// copyBody returns a copy's body, and the target's content after it.
func (a *sharer) copyBody(target string, source held) (body map[string]any, next held) {
	account, name := accountAndName(target)
	body, next = map[string]any{"copyTo": map[string]any{"account": account, "blobName": name}}, source
	if a.random.IntN(3) == 0 {
		next.color = a.color()
		body["replaceMetadata"], body["metadata"] = true, map[string]any{"color": next.color}
	}
	if a.random.IntN(10) == 0 {
		next.expires = true
		body["expires"] = time.Now().Add(3 * time.Second).UTC().Format(time.RFC3339Nano)
	}
	if !a.names[target].expires && a.random.IntN(5) == 0 {
		body["ifNoneMatch"] = "*"
	}
	return body, next
}

// copyOther copies another sharer's name, which may have any content.
func (a *sharer) copyOther(source, target string) error {
	body, next := a.copyBody(target, held{})
	a.open = &unanswered{names: []string{target}, after: []held{next}, other: true}
	r, err := a.node().Try("POST", source, AsJSON(a.T, body), "Content-Type", "application/json")
	if err != nil {
		return err
	}
	switch before := a.names[target]; {
	case r.Status == 404, r.Status == 410, sourceChanged(r), next.expires && r.Status == 400, r.Status == 412 && body["ifNoneMatch"] != nil && before.etag != "":
		a.open = nil
		return nil
	case r.Status == 200 && body["ifNoneMatch"] != nil && before.etag != "":
		return fmt.Errorf("a copy that must not replace %s is made: %v", target, r)
	}
	if r.Status == 200 {
		a.open.after[0].etag = r.Header.Get("ETag")
		if _, known := a.sent.Load(a.open.after[0].etag); !known {
			return fmt.Errorf("the copy of %s has the ETag %q, which no content has", source, a.open.after[0].etag)
		}
	}
	return a.answered("copy", r, nil, 200)
}

// move moves a name of its own to another.
func (a *sharer) move(source, target string) error {
	have, before := a.names[source], a.names[target]
	if have.expires {
		return a.read(source)
	}
	account, name := accountAndName(target)
	body := map[string]any{"moveTo": map[string]any{"account": account, "blobName": name}}
	h := []string{"Content-Type", "application/json"}
	switch {
	case have.etag == "":
	case a.random.IntN(2) == 0:
		h = append(h, "Idempotency-Key", fmt.Sprint("move-", a.number, "-", a.random.Uint64()))
	default:
		h = append(h, "If-Match", have.etag)
	}
	want := 200
	names, after := []string{source, target}, []held{{}, have}
	switch {
	case have.etag == "":
		want, names, after = 404, nil, nil
	case source == target:
		names, after = names[1:], after[1:]
	case !before.expires && a.random.IntN(5) == 0:
		body["ifNoneMatch"] = "*"
		if before.etag != "" {
			want, names, after = 412, nil, nil
		}
	}
	send := func(on *Server) (Response, error) { return on.Try("POST", source, AsJSON(a.T, body), h...) }
	a.open = &unanswered{names: names, after: after}
	if want == 200 {
		a.open.again = func(on *Server) (int, error) {
			r, err := send(on)
			return r.Status, err
		}
	}
	r, err := send(a.node())
	return a.answered("move", r, err, want)
}

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
