package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// Headers in every answer.
const (
	headerChainID = "X-Aptos-Chain-Id"
	headerTime    = "X-Aptos-Ledger-Timestampusec"
)

const (
	// maxResponse is the maximum size in bytes of a response, and of about one channel in a list,
	// which is read one by one: a payer may have any number of channels.
	maxResponse = 4 << 20
	// The pauses between rounds are random, up to firstPause, twice that, and so on up to
	// longestPause ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015). A node may ask
	// for up to longestPause.
	firstPause   = 500 * time.Millisecond
	longestPause = 30 * time.Second
	// failurePause is how long a node that has failed is asked last.
	failurePause = 10 * time.Second
	// maxLag is by how much a node may be behind the clock. A node that is further behind knows the
	// past only, unless the clock is wrong, and is asked last for failurePause.
	maxLag = 30 * time.Second
	// maxAhead is by how much a node may be ahead of the clock. If it is further ahead, its time is
	// wrong, and no answer of it is used.
	maxAhead = time.Minute
)

// request is a request to any node.
type request struct {
	method, path string
	contentType  string // of body
	body         []byte
}

// answer is a node's response.
type answer struct {
	status int
	at     time.Time         // the chain's time when the node answered
	body   *io.LimitedReader // of maxResponse bytes and one more
}

// call sends a request to the nodes until decode accepts an answer of one of them. Such an answer
// has a status of 2xx or 4xx. call returns ErrUnavailable if there is none, and the error of ctx.
func (c *Client) call(ctx context.Context, r request, decode func(*answer) error) error {
	for round := 0; ; round++ {
		pause := rand.N(min(longestPause, firstPause<<round)) + 1
		var failures []error
		for _, i := range c.order(time.Now()) {
			err := c.ask(ctx, i, r, decode)
			failed, ok := errors.AsType[*nodeError](err)
			if !ok {
				return err
			}
			c.failedAt[i].Store(time.Now().UnixNano())
			if ctx.Err() != nil {
				return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
			}
			pause = max(pause, min(failed.retryAfter, longestPause))
			failures = append(failures, fmt.Errorf("fullnode %d of %d: %w", i+1, len(c.nodes), failed.err))
		}
		if round+1 >= c.rounds || !waits(ctx, pause) {
			return fmt.Errorf("%w: %w", ErrUnavailable, errors.Join(failures...))
		}
	}
}

// order returns the nodes' indices in the order in which to ask them: at the end those that were
// behind recently, and last those that have failed recently, so that a node that hangs delays few
// calls.
func (c *Client) order(now time.Time) []int {
	recently := func(at *atomic.Int64) bool { t := at.Load(); return t != 0 && now.UnixNano()-t < int64(failurePause) }
	var good, behind, failed []int
	for i := range c.nodes {
		switch {
		case recently(&c.failedAt[i]):
			failed = append(failed, i)
		case recently(&c.behindAt[i]):
			behind = append(behind, i)
		default:
			good = append(good, i)
		}
	}
	return slices.Concat(good, behind, failed)
}

// waits reports whether it waited for a pause. It returns false at once if ctx ends before.
func waits(ctx context.Context, pause time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ask sends a request to the node with an index and returns the error of decode, or a *nodeError.
func (c *Client) ask(ctx context.Context, i int, r request, decode func(*answer) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, c.nodes[i]+r.path, bytes.NewReader(r.body))
	if err != nil {
		return fmt.Errorf("chain: %w", withoutURL(err))
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "sluice")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if c.apiKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.apiKey)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return &nodeError{err: withoutURL(err)}
	}
	defer func() { _ = resp.Body.Close() }() // decode has read the bytes that it needs
	a, err := c.read(resp)
	if err != nil {
		return &nodeError{err: err, retryAfter: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
	if err := c.compare(i, a.at); err != nil {
		return err
	}
	return decode(a)
}

// compare compares the time of the node with this index with the clock. It returns a *nodeError if
// it is too far ahead. A zero time is not known.
func (c *Client) compare(i int, at time.Time) error {
	if at.IsZero() {
		return nil
	}
	ahead, err := c.aheadOf(at)
	if err != nil {
		return err
	}
	if ahead < -maxLag {
		c.behindAt[i].Store(time.Now().UnixNano())
	}
	c.ahead.Store(&ahead)
	return nil
}

// aheadOf returns by how much a node's time is ahead of the clock, or a *nodeError if that is too
// much.
func (c *Client) aheadOf(at time.Time) (time.Duration, error) {
	ahead := at.Sub(c.now())
	if ahead > maxAhead {
		return 0, &nodeError{err: fmt.Errorf("%w: by %v", ErrClock, ahead.Round(time.Second))}
	}
	return ahead, nil
}

// Ahead returns by how much the chain is ahead of the clock, by the time that a node stated last.
// It is negative if the chain is behind, and never above a minute, because a node that is further
// ahead counts as failed. known is false as long as no node has stated a time.
func (c *Client) Ahead() (ahead time.Duration, known bool) {
	last := c.ahead.Load()
	if last == nil {
		return 0, false
	}
	return *last, true
}

// withoutURL returns why net/http failed, without the URL, which may contain a secret.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// read returns a node's answer before its body was read. It returns an error if the node failed.
func (c *Client) read(resp *http.Response) (*answer, error) {
	if id := resp.Header.Get(headerChainID); id != "" && id != strconv.Itoa(int(c.chainID)) {
		return nil, fmt.Errorf("%w: its id is %q, not %d", ErrWrongChain, id, c.chainID)
	}
	switch kind := resp.StatusCode / 100; {
	case kind == 2 || kind == 4 && !nodeStatus(resp.StatusCode):
	case kind == 3:
		return nil, fmt.Errorf("status %d: redirects are not followed", resp.StatusCode)
	default:
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	a := &answer{status: resp.StatusCode, body: &io.LimitedReader{R: resp.Body, N: maxResponse + 1}}
	if micros, err := strconv.ParseInt(resp.Header.Get(headerTime), 10, 64); err == nil {
		a.at = time.UnixMicro(micros).UTC()
	}
	return a, nil
}

// nodeStatus reports whether a status of 4xx is about the node, or about the client's access to it,
// and not about the request.
func nodeStatus(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	default:
		return false
	}
}

// retryAfter returns the delay in a Retry-After header, which states seconds or a date (RFC 9110,
// section 10.2.3), or 0.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil && date.After(now) {
		return date.Sub(now)
	}
	return 0
}

// decodeJSON decodes an answer with the status want into out. Other statuses are an *Error if the
// body is one of the API's errors. Otherwise the node has failed.
func (a *answer) decodeJSON(want int, out any) error {
	body, err := io.ReadAll(a.body)
	if err != nil {
		return &nodeError{err: fmt.Errorf("the response was cut: %w", err)}
	}
	if len(body) > maxResponse {
		return &nodeError{err: fmt.Errorf("the response has more than %d bytes", maxResponse)}
	}
	if a.status == want {
		if err := json.Unmarshal(body, out); err != nil {
			return a.malformed(err)
		}
		return nil
	}
	var refusal struct {
		Message string `json:"message"`
		Code    string `json:"error_code"`
		VMCode  uint64 `json:"vm_error_code"`
	}
	if err := json.Unmarshal(body, &refusal); err != nil {
		return a.malformed(err)
	}
	if refusal.Code == "" {
		return a.malformed(errors.New("it has no error_code"))
	}
	return &Error{Status: a.status, Code: refusal.Code, VMCode: refusal.VMCode, Message: refusal.Message[:min(maxMessage, len(refusal.Message))]}
}

// malformed returns the failure of a node that answers in no way that the API knows.
func (a *answer) malformed(err error) error {
	return &nodeError{err: fmt.Errorf("status %d with an unexpected body: %w", a.status, err)}
}
