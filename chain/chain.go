// Package chain is a client for the fullnodes of the chain that executes micropayments. It
// simulates and submits transactions, finds them by their hash, and reads accounts and payment
// channels.
//
// The interface is the REST API of Aptos fullnodes, version 1, from which it uses
//
//	GET  {node}/                             the head: the chain's id, version and time
//	GET  {node}/estimate_gas_price
//	GET  {node}/accounts/{address}           an account's sequence number
//	POST {node}/transactions                 micropay.Transaction.Body
//	POST {node}/transactions/simulate        micropay.Micropayment.Simulation
//	GET  {node}/transactions/by_hash/{hash}
//	POST {node}/view[?ledger_version={n}]    the channels between two accounts
//
// Each call asks the nodes in order, those that failed in the last seconds at the end, until one of
// them answers it. A node fails if it cannot be reached, is slow, is overloaded (429, 5xx), gives
// the client no access (401, 403), belongs to another chain, states a time more than a minute ahead
// of the clock, or sends anything that is not an answer in this API. If a node is far behind the
// clock, its answer counts, but the next calls ask it after all nodes that have not failed. After
// all nodes have failed, the call pauses (exponential backoff with full jitter, or the nodes'
// Retry-After, whichever is longer) and asks them again.
package chain

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"sluice/micropay"
)

// The defaults of Options.
const (
	DefaultTimeout = 10 * time.Second
	DefaultRounds  = 3
)

// Options are the options of New.
type Options struct {
	// Nodes are the base URLs of fullnodes, such as https://node.example/v1, in the order in which
	// they are asked. There must be one or more. The scheme must be https; http is accepted for
	// loopback addresses.
	Nodes []string
	// ChainID is the chain's id. A node that states a different id fails.
	ChainID uint8
	// Module is the account that deployed the contract of payment channels.
	Module micropay.Address
	// APIKey is sent to the nodes as a bearer token, unless it is empty. It is never sent anywhere
	// else, because redirects are not followed.
	APIKey string
	// Timeout is how long one request to one node may take. 0 means DefaultTimeout.
	Timeout time.Duration
	// Rounds is how often a call asks the nodes in vain before it returns ErrUnavailable. 0 means
	// DefaultRounds.
	Rounds int
	// Transport sends the requests. nil means one like http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock with which the nodes' times are compared. nil means time.Now.
	Now func() time.Time
}

// Client asks a chain's fullnodes. It may be used concurrently.
type Client struct {
	nodes []string
	// failedAt and behindAt are the Unix times in nanoseconds at which each node failed last, or
	// was found to be behind, or 0.
	failedAt []atomic.Int64
	behindAt []atomic.Int64
	chainID  uint8
	module   micropay.Address
	apiKey   string
	timeout  time.Duration
	rounds   int
	http     *http.Client
	now      func() time.Time
	ahead    atomic.Pointer[time.Duration] // see Ahead
}

// ErrOptions is returned by New for options that cannot be used. It is wrapped.
var ErrOptions = errors.New("chain: unusable options")

// New returns a client. It sends nothing. It returns ErrOptions if a URL is unusable.
func New(opt Options) (*Client, error) {
	c := &Client{
		chainID: opt.ChainID, module: opt.Module, apiKey: opt.APIKey,
		timeout: opt.Timeout, rounds: opt.Rounds, now: opt.Now,
		http: &http.Client{
			Transport:     opt.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if c.rounds == 0 {
		c.rounds = DefaultRounds
	}
	if c.now == nil {
		c.now = time.Now
	}
	if opt.Transport == nil {
		c.http.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	if len(opt.Nodes) == 0 {
		return nil, fmt.Errorf("%w: there is no URL of a fullnode", ErrOptions)
	}
	for _, text := range opt.Nodes {
		node, err := parseNode(text)
		if err != nil {
			return nil, fmt.Errorf("%w: the URL of a fullnode: %w", ErrOptions, err)
		}
		c.nodes = append(c.nodes, node)
	}
	c.failedAt, c.behindAt = make([]atomic.Int64, len(c.nodes)), make([]atomic.Int64, len(c.nodes))
	return c, nil
}

// CheckURL returns an error unless text can be a fullnode's URL. The error does not repeat the
// text, which may contain a secret.
func CheckURL(text string) error {
	_, err := parseNode(text)
	return err
}

// parseNode returns a node's base URL without a slash at its end. Errors do not repeat the URL,
// which may contain a secret.
func parseNode(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("it cannot be parsed")
	case u.Host == "" || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil:
		return "", errors.New("want https://host/path, without user, query and fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())):
		return "", errors.New("want https; http is accepted for loopback addresses only")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
