package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goclient "sluice/client"
)

// feedNodes are nodes, each behind a network, and the progress of those who change blobs there.
type feedNodes struct {
	T     testing.TB
	seed  uint64
	views []*Server     // the nodes behind the networks
	down  []atomic.Bool // the nodes that do not run
	made  atomic.Int64  // requests with a response
	over  atomic.Bool   // no more requests are sent
	seen  sync.Map      // every change that a follower was sent, by its number
}

// view returns a random node, or nil if that does not run.
func (f *feedNodes) view(random *rand.Rand) *Server {
	if i := random.IntN(len(f.views)); !f.down[i].Load() {
		return f.views[i]
	}
	return nil
}

// follower follows the changes of an account's names with a prefix, or of all accounts. It begins
// with a listing, and goes on at a random node from its last position, again and again.
type follower struct {
	*feedNodes
	number          int
	account, prefix string
	late            bool // it begins when half the requests are done
	stream, slow    bool // by server-sent events; with pauses while other changes are made
	random          *rand.Rand
	clients         []*goclient.Client // of the nodes

	start   int64  // the number of the position at which it began
	after   string // its last position
	picture map[string]change
	numbers []int64 // as the changes came
	begun   int     // requests
	done    atomic.Bool
}

func (f *feedNodes) goes() bool { return !f.T.Failed() && f.T.Context().Err() == nil }

// wait waits for a moment, and until the load is over or as is says.
func (f *feedNodes) wait(is func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for first := true; f.goes() && (first || is != nil && !is() && !f.over.Load()); first = false {
		<-tick.C
	}
}

func (f *follower) query() url.Values {
	q := url.Values{"prefix": {f.prefix}}
	if f.account != "" {
		q.Set("account", f.account)
	}
	return q
}

// begin takes a position, the feed's end, and then a listing, and reports whether it has both. A
// late follower asks for changes that are gone, as if it had been away for too long.
func (f *follower) begin() bool {
	on, q, want := f.view(f.random), f.query(), 200
	if on == nil {
		return false
	}
	if f.late {
		q.Set("after", "zz-0")
		want = 410
	}
	r, err := on.Try("GET", "/v1/changes?"+q.Encode(), nil)
	if err != nil || r.Status == 503 {
		return false
	}
	var at struct{ Next, Restart string }
	if err := json.Unmarshal(r.Body, &at); err != nil || r.Status != want {
		f.T.Errorf("follower %d begins with %v, want %d", f.number, r, want)
		return false
	}
	f.after = at.Next + at.Restart // there is one
	f.start = number(f.after)
	f.picture, err = f.list(on)
	return err == nil
}

// list returns the follower's blobs from a listing.
func (f *follower) list(on *Server) (map[string]change, error) {
	picture, accounts := map[string]change{}, feedAccounts
	if f.account != "" {
		accounts = []string{f.account}
	}
	for _, account := range accounts {
		var page struct{ Blobs []change } // it has them all
		r, err := on.Try("GET", "/v1/blobs/"+account+"?prefix="+f.prefix, nil)
		if err == nil && r.Status != 200 {
			err = fmt.Errorf("the listing is %v", r)
		}
		if err = cmp.Or(err, json.Unmarshal(r.Body, &page)); err != nil {
			return nil, err
		}
		for _, b := range page.Blobs {
			picture[account+"/"+b.Name] = change{ETag: b.ETag, Expires: b.Expires}
		}
	}
	return picture, nil
}

// errEnough ends a request of a follower that goes on elsewhere.
var errEnough = errors.New("enough")

// read follows from the last position at a node, until there were so many changes.
func (f *follower) read(on, changes int) error {
	ctx, cancel := context.WithCancel(f.T.Context())
	defer cancel()
	see := func(c change) error {
		f.see(c)
		if changes--; changes == 0 || f.done.Load() {
			return errEnough
		}
		if f.slow && f.random.IntN(50) == 0 {
			until := f.made.Load() + 100
			f.wait(func() bool { return f.made.Load() > until })
		}
		return nil
	}
	var err error
	if f.stream {
		err = f.events(ctx, f.views[on], see)
	} else {
		o := goclient.ChangesOptions{Account: f.account, Prefix: f.prefix, After: f.after, Passed: func(at string) { f.after = at }}
		for c, failed := range f.clients[on].Changes(ctx, o) {
			if err = failed; err == nil {
				err = see(change{c.Position, c.Kind, c.Account, c.Name, c.Version, c.ETag, c.Size, c.Expires})
			}
			if err != nil {
				break
			}
		}
	}
	var refused *goclient.Error
	if errors.As(err, &refused) && refused.Status < 500 && f.goes() {
		f.T.Errorf("follower %d: after %s: %v", f.number, f.after, err)
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// events reads server-sent events.
func (f *follower) events(ctx context.Context, on *Server, see func(change) error) error {
	request, err := on.Request("GET", "/v1/changes?"+f.query().Encode(), nil, Headers{"Accept", "text/event-stream", "Last-Event-ID", f.after})
	if err != nil {
		return err
	}
	response, err := on.Client.Do(request.WithContext(ctx))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was read as far as it is wanted
	if response.StatusCode != 200 {
		return &goclient.Error{Status: response.StatusCode}
	}
	var id, data string
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "id":
			id = value
		case field == "event" && value == "gone":
			return &goclient.Error{Status: 410}
		case field == "data":
			data = value
		case lines.Text() == "" && data != "":
			var c change
			if err := json.Unmarshal([]byte(data), &c); err != nil || c.Position != id {
				f.T.Errorf("follower %d: the event %s is %q: %v", f.number, id, data, err)
			}
			data = ""
			if err := see(c); err != nil {
				return err
			}
		case lines.Text() == "" && id != "":
			f.after = id
		}
	}
	return cmp.Or(lines.Err(), errors.New("the stream has ended"))
}

// see takes a change into the picture.
func (f *follower) see(c change) {
	last := f.start
	if len(f.numbers) > 0 {
		last = f.numbers[len(f.numbers)-1]
	}
	n := number(c.Position)
	if other, _ := f.seen.LoadOrStore(n, c); n <= last || other != c || f.account != "" && c.Account != f.account || !strings.HasPrefix(c.Name, f.prefix) {
		f.T.Errorf("follower %d: the change after %d is %+v, elsewhere %+v", f.number, last, c, other)
	}
	f.numbers, f.after = append(f.numbers, n), c.Position
	switch c.Kind {
	case "stored", "replaced", "copied", "moved-to", "restored":
		f.picture[c.Account+"/"+c.Name] = c
	case "version-deleted":
	default:
		delete(f.picture, c.Account+"/"+c.Name)
	}
	if c.Name == feedEnd && (c.Account == f.account || c.Account == feedAccounts[len(feedAccounts)-1]) {
		f.done.Store(true)
	}
}

// known returns the ETags in a picture of blobs that have not expired.
func known(picture map[string]change) map[string]string {
	tags := map[string]string{}
	for name, c := range picture {
		if c.Expires.IsZero() || c.Expires.After(time.Now()) {
			tags[name] = c.ETag
		}
	}
	return tags
}

// compare checks that a follower has had each change behind its start that it follows, once.
func (f *follower) compare(list []change) {
	f.T.Helper()
	var want []int64
	for _, c := range list {
		if n := number(c.Position); n > f.start && (f.account == "" || c.Account == f.account) && strings.HasPrefix(c.Name, f.prefix) {
			want = append(want, n)
			if other, ok := f.seen.Load(n); ok && other != c {
				f.T.Errorf("the change %+v was %+v before", c, other)
			}
		}
	}
	if !slices.Equal(f.numbers, want) {
		f.T.Errorf("follower %d of %s/%s has had %d changes after %d, and there are %d", f.number, f.account, f.prefix, len(f.numbers), f.start, len(want))
	}
}
