package conformance

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/micropay"
	"sluice/wire"
)

// Options configure a run.
type Options struct {
	URL     string // the server's base URL, such as http://localhost:9090 or https://example.org/sluice
	Key     string // an API key; empty: none
	Account string // the account for the cases' blobs; empty: a random address
	Level   Level  // the highest level to run
	// Match selects cases by their name; nil: all of them.
	Match *regexp.Regexp
	// Jobs is how many cases run at once; 0: 4.
	Jobs int
	// Timeout is how long one request may take; 0: 30 seconds.
	Timeout time.Duration
	// Transport sends the requests; nil: the default transport, without compression.
	Transport http.RoundTripper

	// RootCAs are the server's certificate authorities, in place of the system's. They have no
	// effect if Transport is set.
	RootCAs *x509.CertPool
}

// Cases returns the cases that the options select.
func (o *Options) Cases() []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool {
		return c.Level > o.Level || o.Match != nil && !o.Match.MatchString(c.Name)
	})
}

// ErrUnusable means that no case could run: the server does not respond, or the account may not be
// written with this key. It is wrapped.
var ErrUnusable = errors.New("the server cannot be checked")

// Run runs the selected cases, and calls each for every result, in the order of the cases. It
// returns ErrUnusable if no case can run. If ctx ends, the cases that run are stopped, their blobs
// and uploads are deleted, and Run returns ctx's error with the results until then.
func Run(ctx context.Context, o Options, each func(Result)) (Report, error) {
	s, err := connect(ctx, o)
	if err != nil {
		return Report{}, err
	}
	report := Report{URL: s.base, Version: s.info.Version, Level: o.Level, Started: time.Now().UTC()}
	for result := range inOrder(o.Cases(), cmp.Or(o.Jobs, 4), func(number int, c Case) Result {
		return s.try(ctx, number, c)
	}) {
		if ctx.Err() != nil {
			continue // a stopped case proves nothing about the server
		}
		report.add(result)
		each(result)
	}
	report.Seconds = time.Since(report.Started).Seconds()
	report.Left = s.leftovers(context.WithoutCancel(ctx))
	return report, context.Cause(ctx)
}

// inOrder calls f for each case, several at once, and returns the results in the order of the
// cases.
func inOrder(cases []Case, jobs int, f func(int, Case) Result) func(yield func(Result) bool) {
	return func(yield func(Result) bool) {
		results := make([]chan Result, len(cases))
		for i := range results {
			results[i] = make(chan Result, 1)
		}
		var workers sync.WaitGroup
		defer workers.Wait()
		next := make(chan int)
		defer close(next)
		for range jobs {
			workers.Go(func() {
				for i := range next {
					results[i] <- f(i, cases[i])
				}
			})
		}
		sent := 0
		for i := range cases {
			for ; sent < len(cases) && sent < i+jobs; sent++ {
				next <- sent
			}
			if !yield(<-results[i]) {
				return
			}
		}
	}
}

// try runs one case and removes its blobs and uploads.
func (s *server) try(ctx context.Context, number int, c Case) (result Result) {
	begun := time.Now()
	state := &trialState{}
	t := &trial{s, ctx, fmt.Sprintf("%s%d/", s.prefix, number), s.account, s.key, state}
	result = Result{Case: c, Outcome: Passed}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stop:
			result.Outcome, result.Reason = p.outcome, p.reason
		default: // a response that the case did not foresee
			result.Outcome, result.Reason = Failed, fmt.Sprint(p)
		}
		t.remove()
		result.Requests, result.Duration = state.requests, time.Since(begun)
		result.Seconds = result.Duration.Seconds()
	}()
	for _, n := range c.needs {
		if !n.holds(s) {
			t.skipf("needs %s", n.label)
		}
	}
	c.check(t)
	return result
}

// connect reads /v1/info, and checks that the account may be written.
func connect(ctx context.Context, o Options) (*server, error) {
	base, err := url.Parse(o.URL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("%w: %q is not an http or https URL", ErrUnusable, o.URL)
	}
	transport := o.Transport
	if transport == nil {
		pool := http.DefaultTransport.(*http.Transport).Clone()
		pool.DisableCompression = true
		if o.RootCAs != nil {
			pool.TLSClientConfig = &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12}
		}
		transport = pool
	}
	s := &server{
		client: &http.Client{
			Transport: transport, Timeout: cmp.Or(o.Timeout, 30*time.Second),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: strings.TrimRight(o.URL, "/"), key: o.Key, account: cmp.Or(o.Account, randomAddress()),
		prefix: "conformance-" + strings.ToLower(rand.Text()[:10]) + "/",
	}
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, randomBytes(32))
	if err != nil {
		return nil, err
	}
	if s.payer, err = micropay.NewSigner(micropay.SchemeEd25519, key); err != nil {
		return nil, err
	}
	result := s.try(ctx, -1, Case{Name: "connect", check: func(c *trial) { s.explore(c) }})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if result.Outcome != Passed {
		return nil, fmt.Errorf("%w: %s", ErrUnusable, result.Reason)
	}
	return s, nil
}

// explore reads /v1/info, and finds out whether the account may be written, and read for free.
// Everything else that is wrong is for the cases to find.
func (s *server) explore(c *trial) {
	info := c.send(request{method: "GET", target: "/v1/info"})
	if s.published = info.status == http.StatusOK && json.Unmarshal([]byte(info.body), &s.info) == nil; !s.published {
		s.info = wire.Info{}
	}
	switch put := c.put("probe", "probe"); {
	case put.status == http.StatusUnauthorized && s.key == "":
		c.fatalf("the server requires an API key: state it with --key-file")
	case put.status == http.StatusUnauthorized:
		c.fatalf("the server does not accept the key (%s)", put.problem().Code)
	case put.status == http.StatusForbidden:
		c.fatalf("the key may not write the account %s: state another with --account (%s)", s.account, put.problem().Code)
	}
	s.freeReads = c.send(request{method: "GET", target: c.blob("probe")}).status != http.StatusPaymentRequired
}

// leftovers removes the run's remaining blobs and uploads from its account, such as an upload that
// was begun by a request without a response. It returns those that cannot be removed; without lists
// on the server, those that the cases could not remove.
func (s *server) leftovers(ctx context.Context) []string {
	left := []string{}
	result := s.try(ctx, -1, Case{Name: "leftovers", check: func(c *trial) {
		blobs, uploads := c.ownBlobs(), c.ownUploads()
		for _, name := range blobs {
			if r := c.send(request{method: "DELETE", target: "/v1/blobs/" + s.account + "/" + escaped(name)}); r.status != http.StatusNoContent {
				left = append(left, "blob "+s.account+"/"+name)
			}
		}
		for _, id := range uploads {
			if r := (upload{c, id}).abort(); r.status != http.StatusNoContent {
				left = append(left, "upload "+id)
			}
		}
	}})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, label := range s.left {
		if result.Outcome != Passed || !strings.Contains(label, " "+s.account+"/") {
			left = append(left, label)
		}
	}
	return left
}

// ownBlobs returns the names of the run's blobs.
func (c *trial) ownBlobs() (found []string) {
	for after := ""; ; {
		var page wire.BlobPage
		target := "/v1/blobs/" + c.account + "?prefix=" + url.QueryEscape(c.server.prefix) + "&after=" + url.QueryEscape(after)
		c.send(request{method: "GET", target: target}).want(http.StatusOK).json(&page)
		found = append(found, names(page)...)
		if after = page.Next; after == "" {
			return found
		}
	}
}

// ownUploads returns the ids of the run's open uploads.
func (c *trial) ownUploads() (found []string) {
	for after := ""; ; {
		var page wire.UploadPage
		target := "/v1/multipart-uploads?account=" + c.account + "&after=" + url.QueryEscape(after)
		c.send(request{method: "GET", target: target}).want(http.StatusOK).json(&page)
		for _, u := range page.Uploads {
			if strings.HasPrefix(u.Name, c.server.prefix) {
				found = append(found, u.UploadID)
			}
		}
		if after = page.Next; after == "" {
			return found
		}
	}
}
