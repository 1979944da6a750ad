package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"sluice/metastore"
	"sluice/wire"
)

// The classes of errors of attempts.
const (
	failedStatus     = "status"     // the receiver has answered with a status that is not 2xx
	failedAddress    = "address"    // the address is not permitted
	failedName       = "name"       // the host's name cannot be resolved
	failedConnection = "connection" // nobody has accepted the connection
	failedTLS        = "tls"        // such as a certificate for another name
	failedTimeout    = "timeout"
	failedResponse   = "response" // there was no valid response
	failedSecret     = "secret"   // the webhook's secret cannot be opened
)

// classOf returns an error's class. The error's text is not kept: it may quote the response.
func classOf(ctx context.Context, err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case errors.Is(err, errAddress):
		return failedAddress
	case ctx.Err() != nil:
		return failedTimeout
	case errors.As(err, &name):
		return failedName
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return failedTLS
	case errors.As(err, &op) && op.Op == "dial":
		return failedConnection
	}
	return failedResponse
}

// attempt sends a message once, and returns the result: accepted, if the receiver has answered with
// a status 2xx in time.
func (c *courier) attempt(ctx context.Context, client *http.Client, w *metastore.Webhook, m *message) metastore.WebhookResult {
	began := c.store.Now()
	status, class := c.post(ctx, client, w, m, began)
	result := metastore.WebhookResult{At: began.UTC(), Took: c.store.Now().Sub(began), Status: status, Error: class}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case class == "":
		c.stats.Accepted++
	case status != 0:
		c.stats.Refused++
	case ctx.Err() == nil:
		c.stats.Failed++
	}
	return result
}

func (c *courier) post(ctx context.Context, client *http.Client, w *metastore.Webhook, m *message, now time.Time) (status int, class string) {
	secrets, err := c.secrets(w)
	if err != nil {
		return 0, failedSecret
	}
	signature, err := m.sign(now, secrets)
	if err != nil {
		return 0, failedSecret
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.opt.timeout, timeout))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(m.body))
	if err != nil {
		return 0, failedName
	}
	r.Header = http.Header{
		"Content-Type": {contentType}, "User-Agent": {"sluice-webhook"},
		"Webhook-Id": {m.id}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "Webhook-Signature": {signature},
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, classOf(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // nothing of it is kept
	if res.StatusCode/100 != 2 {
		return res.StatusCode, failedStatus
	}
	_, _ = io.CopyN(io.Discard, res.Body, drained) // it ends with ctx; after a status 101 it would not
	return res.StatusCode, ""
}

// testMessage returns a test's message.
func (c *courier) testMessage(w *metastore.Webhook) (message, error) {
	return newMessage(w.ID, []wire.Event{c.opt.event("test_"+rand.Text(), testType, "", c.store.Now(), struct {
		Webhook string `json:"webhook"`
	}{w.ID})})
}
