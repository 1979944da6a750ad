package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"sluice/wire"
)

// trial is a case while it runs. Its methods end the case if the server does not respond.
type trial struct {
	*server
	ctx     context.Context
	prefix  string // begins the names of this case's blobs
	account string
	key     string
	state   *trialState
}

// trialState is shared by one case's trials.
type trialState struct {
	requests int
	blobs    []string  // targets of blobs that may have been stored
	uploads  []string  // ids of uploads that may be open
	undo     []request // that end what the case has set
	kept     []string  // accounts with versions
}

// Outcome is how a case ended.
type Outcome string

// A case passes if the server keeps the rule, fails if it does not, and is skipped if the rule
// cannot be checked on this server.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// stop is the value with which a case panics to end before its last line.
type stop struct {
	outcome Outcome
	reason  string
}

// fatalf ends the case: the server breaks a rule.
func (c *trial) fatalf(format string, args ...any) {
	panic(stop{Failed, fmt.Sprintf(format, args...)})
}

// skipf ends the case: the rule cannot be checked on this server.
func (c *trial) skipf(format string, args ...any) {
	panic(stop{Skipped, fmt.Sprintf(format, args...)})
}

// in returns the trial in another account. The case is skipped if the key may not write to it.
func (c *trial) in(account string) *trial {
	other := *c
	other.account = account
	return &other
}

// without returns the trial without a key.
func (c *trial) without() *trial { return c.with("") }

// with returns the trial with another key.
func (c *trial) with(key string) *trial {
	other := *c
	other.key = key
	return &other
}

// request is a request. Its target is sent byte for byte, relative to the base URL.
type request struct {
	method, target string
	header         []string // alternating names and values
	body           string
	chunked        bool // the body is sent without its length
}

// send sends a request and reads the whole response. It waits and repeats a request that was
// refused for its rate.
func (c *trial) send(r request) *response {
	for waited := time.Duration(0); ; {
		answer := c.sendOnce(r)
		seconds, err := strconv.Atoi(answer.header.Get("Retry-After"))
		pause := time.Duration(seconds) * time.Second
		if answer.status != http.StatusTooManyRequests || err != nil || waited+pause > time.Minute {
			return answer
		}
		select {
		case <-time.After(pause):
			waited += pause
		case <-c.ctx.Done():
			c.fatalf("%s: %v", answer.label, c.ctx.Err())
		}
	}
}

// sendOnce sends a request and reads the whole response.
func (c *trial) sendOnce(r request) *response {
	answer, err := c.exchange(r)
	if err != nil {
		c.fatalf("%s: %v", r, err)
	}
	return answer
}

// wantCut expects that the connection ends before the whole response, and returns the part that
// came: nil without a response.
func (c *trial) wantCut(r request) *response {
	answer, err := c.exchange(r)
	if err == nil {
		answer.fatalf("the response is complete: %d with %d bytes", answer.status, len(answer.body))
	}
	return answer
}

// exchange sends a request and reads the response. If the response ends too early, it returns the
// part that came, and an error.
func (c *trial) exchange(r request) (*response, error) {
	c.state.requests++
	req, err := c.newRequest(r)
	c.ok(err)
	answer, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no response: %w", rootCause(err))
	}
	label := r.String()
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		err = fmt.Errorf("the response %d ends after %d bytes: %w", answer.StatusCode, len(text), err)
	}
	return &response{func(reason string) { c.fatalf("%s: %s", label, reason) }, label, answer.StatusCode, answer.Header, string(text), answer.ContentLength}, err
}

func (c *trial) newRequest(r request) (*http.Request, error) {
	base, err := url.Parse(c.base)
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if r.body != "" || r.chunked {
		body = strings.NewReader(r.body)
	}
	if r.chunked {
		body = io.MultiReader(body) // whose length net/http does not know
	}
	req, err := http.NewRequestWithContext(c.ctx, r.method, base.Scheme+"://"+base.Host, body)
	if err != nil {
		return nil, err
	}
	req.URL.Opaque = base.EscapedPath() + r.target
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i < len(r.header); i += 2 {
		if r.header[i] == "Host" {
			req.Host = r.header[i+1]
			continue
		}
		req.Header.Add(r.header[i], r.header[i+1])
	}
	return req, nil
}

// String describes the request for a failure's message.
func (r request) String() string {
	label := r.method + " " + shortened(r.target, 120)
	for i := 0; i < len(r.header); i += 2 {
		label += fmt.Sprintf(" [%s: %s]", r.header[i], shortened(r.header[i+1], 60))
	}
	return label
}

// shortened returns the beginning of a text that is longer than limit bytes.
func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:limit] + "..."
}

// rootCause returns an error without the URL that net/http puts before it.
func rootCause(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func (c *trial) ok(err error) {
	if err != nil {
		c.fatalf("%v", err)
	}
}

// blob returns the target of this case's blob with a name.
func (c *trial) blob(name string) string {
	return "/v1/blobs/" + c.account + "/" + escaped(c.prefix+name)
}

// escaped escapes all of a name but slashes and unreserved characters (RFC 3986, section 2.3).
func escaped(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch ch := name[i]; {
		case 'a' <= ch && ch <= 'z', 'A' <= ch && ch <= 'Z', '0' <= ch && ch <= '9', strings.IndexByte("-._~/", ch) >= 0:
			b.WriteByte(ch)
		default:
			fmt.Fprintf(&b, "%%%02X", ch)
		}
	}
	return b.String()
}

// ofLength returns a name with which the blob's whole name has n UTF-16 code units.
func (c *trial) ofLength(n int) string {
	return strings.Repeat("n", n-len(utf16.Encode([]rune(c.prefix))))
}

// put stores a blob. The case need not delete it.
func (c *trial) put(name, body string, header ...string) *response {
	return c.putTo(c.blob(name), body, header...)
}

// putTo stores a blob at a target.
func (c *trial) putTo(target, body string, header ...string) *response {
	c.state.blobs = append(c.state.blobs, target)
	r := c.send(request{method: "PUT", target: target, body: body, header: header})
	c.skipIfForbidden(r)
	return r
}

// skipIfForbidden ends the case if the response refuses a write to another account than the run's.
func (c *trial) skipIfForbidden(r *response) {
	if r.status == http.StatusForbidden && c.account != c.server.account {
		c.skipf("the key may not write the account %s", c.account)
	}
}

// get reads a blob. The case is skipped if this server wants to be paid for it.
func (c *trial) get(name string, header ...string) *response {
	return c.read("GET", c.blob(name), header...)
}

// head is like get, with HEAD.
func (c *trial) head(name string, header ...string) *response {
	return c.read("HEAD", c.blob(name), header...)
}

// read reads the blob at a target, like get.
func (c *trial) read(method, target string, header ...string) *response {
	if !c.freeReads {
		c.skipf("needs reads without payment")
	}
	return c.send(request{method: method, target: target, header: header})
}

// delete deletes a blob.
func (c *trial) delete(name string, header ...string) *response {
	return c.send(request{method: "DELETE", target: c.blob(name), header: header})
}

// post sends JSON to a target.
func (c *trial) post(target, body string, header ...string) *response {
	return c.send(request{method: "POST", target: target, body: body, header: append([]string{"Content-Type", "application/json"}, header...)})
}

// list lists the blobs of this case. The query, such as "limit=2&delimiter=/", is appended to the
// parameters prefix, for names that begin with the given one.
func (c *trial) list(prefix, query string) wire.BlobPage {
	page := wire.BlobPage{}
	c.send(request{method: "GET", target: c.listTarget(prefix, query)}).want(http.StatusOK).json(&page)
	for i := range page.Blobs {
		page.Blobs[i].Name = strings.TrimPrefix(page.Blobs[i].Name, c.prefix)
	}
	for i := range page.Prefixes {
		page.Prefixes[i] = strings.TrimPrefix(page.Prefixes[i], c.prefix)
	}
	return page
}

// listTarget returns the target of list.
func (c *trial) listTarget(prefix, query string) string {
	target := "/v1/blobs/" + c.account + "?prefix=" + url.QueryEscape(c.prefix+prefix)
	if query != "" {
		target += "&" + query
	}
	return target
}

// after returns the parameter with which a list continues after one of this case's names.
func (c *trial) after(name string) string { return "after=" + url.QueryEscape(c.prefix+name) }

// names returns a page's names, without the case's prefix.
func names(page wire.BlobPage) []string {
	all := []string{}
	for _, b := range page.Blobs {
		all = append(all, b.Name)
	}
	return all
}

// upload is a multipart upload of a case.
type upload struct {
	c  *trial
	id string
}

// begin begins an upload of one of this case's blobs. members are appended to the JSON object, such
// as `"contentType": "text/plain"`. The case need not abort it, or delete the blob.
func (c *trial) begin(name string, partSize int64, members ...string) upload {
	var begun wire.UploadBegun
	c.tryBegin(name, append([]string{`"rawPartSize": ` + strconv.FormatInt(partSize, 10)}, members...)...).want(http.StatusOK).json(&begun)
	return upload{c, begun.UploadID}
}

// tryBegin sends the request that begins an upload, with these members.
func (c *trial) tryBegin(name string, members ...string) *response {
	members = slices.Insert(slices.Clone(members), 0, `"rawAccount": `+quoted(c.account), `"rawBlobName": `+quoted(c.prefix+name))
	return c.tryBeginWith("{" + strings.Join(members, ", ") + "}")
}

// tryBeginWith sends the request that begins an upload, with this body.
func (c *trial) tryBeginWith(body string) *response {
	r := c.post("/v1/multipart-uploads", body)
	c.skipIfForbidden(r)
	var begun wire.UploadBegun
	if r.status == http.StatusOK && r.parsed(&begun) == nil && begun.UploadID != "" {
		c.state.uploads = append(c.state.uploads, begun.UploadID)
	}
	return r
}

// target returns the target of the upload's operations; following is appended.
func (u upload) target(following string) string {
	return "/v1/multipart-uploads/" + url.PathEscape(u.id) + following
}

// part sends a part.
func (u upload) part(index int, body string, header ...string) *response {
	return u.c.send(request{method: "PUT", target: u.target("/parts/" + strconv.Itoa(index)), body: body, header: header})
}

// complete completes the upload, with a JSON body or "".
func (u upload) complete(body string, header ...string) *response {
	return u.c.send(request{method: "POST", target: u.target("/complete"), body: body, header: header})
}

// abort aborts the upload.
func (u upload) abort() *response { return u.c.send(request{method: "DELETE", target: u.target("")}) }

// status returns the upload's state.
func (u upload) status() wire.UploadStatus {
	var status wire.UploadStatus
	u.c.send(request{method: "GET", target: u.target("")}).want(http.StatusOK).json(&status)
	return status
}

// remove removes the case's blobs and uploads, and undoes its settings. An upload may have become a
// blob; its state has the name.
func (c *trial) remove() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Minute)
	defer cancel()
	cleaner := *c
	cleaner.ctx, cleaner.key, cleaner.state = ctx, c.server.key, &trialState{}
	for _, r := range c.state.undo {
		if answer, done := cleaner.attempt(r); !done || answer.status/100 != 2 && answer.status != http.StatusNotFound {
			c.leave("setting " + r.target)
		}
	}
	for _, id := range c.state.uploads {
		if target, done := cleaner.attempt(request{method: "GET", target: upload{&cleaner, id}.target("")}); done {
			var status wire.UploadStatus
			if target.parsed(&status) == nil && status.State == "committed" {
				c.state.blobs = append(c.state.blobs, "/v1/blobs/"+status.Account+"/"+escaped(status.Name))
				continue
			}
		}
		cleaner.attempt(request{method: "DELETE", target: upload{&cleaner, id}.target("")})
	}
	slices.Sort(c.state.blobs)
	for _, target := range slices.Compact(c.state.blobs) {
		if r, done := cleaner.attempt(request{method: "DELETE", target: target}); !done || r.status >= 500 || r.status == http.StatusMethodNotAllowed {
			c.leave("blob " + strings.TrimPrefix(target, "/v1/blobs/"))
		}
	}
	for _, account := range c.state.kept {
		if !try(func() { cleaner.removeVersions(account) }) {
			c.leave("versions " + account + "/" + c.prefix)
		}
	}
}

// attempt sends a request that removes something. It reports whether there was a response.
func (c *trial) attempt(removal request) (r *response, done bool) {
	done = try(func() { r = c.send(removal) })
	return r, done
}

// try reports whether f does not end the case.
func try(f func()) (done bool) {
	defer func() {
		if _, stopped := recover().(stop); stopped {
			done = false
		}
	}()
	f()
	return true
}
