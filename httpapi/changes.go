package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"sluice/access"
	"sluice/blob"
	"sluice/exchange"
	"sluice/feed"
	"sluice/metastore"
	"sluice/wire"
	"sluice/wire/link"
)

const (
	// maxChangesWait is the longest that a request for a page waits for a change.
	maxChangesWait = time.Minute
	// waitingBytes bounds a waiting reader's page, because many readers wait.
	waitingBytes = 64 << 10
	// recheckEvery is how often a stream's caller is checked while nothing changes. A heartbeat is
	// sent every heartbeats times.
	recheckEvery = 3 * time.Second
	heartbeats   = 5
	// retryStream is after how many milliseconds a browser connects again.
	retryStream = 2000
)

// changeParameters are all parameters of getChanges.
var changeParameters = []string{"account", "prefix", "kinds", "after", "limit", "wait", link.Parameter}

// mayListChanges requires an account's listing permission, or admin for all accounts.
func (s *Server) mayListChanges(x *call) error {
	q, err := readQuery(x.Request)
	if err != nil {
		return err
	}
	for name := range q {
		if !slices.Contains(changeParameters, name) {
			return fmt.Errorf("%w: there is no %.40q here; the parameters are account, prefix, kinds, after, limit and wait", exchange.ErrParameter, name)
		}
	}
	switch _, one := q["account"]; {
	case one:
		return s.mayListAt(x, listInQuery, false)
	case x.Local:
		return nil
	}
	if err := x.RequireScope(access.ScopeAdmin); err != nil {
		return err
	}
	return x.Grant(access.ScopeAdmin, "", "")
}

// stillMayListChanges returns why the caller may no longer read changes, or nil.
func (s *Server) stillMayListChanges(x *call) error {
	if err := x.Recheck(x.Request.Context()); err != nil {
		return err
	}
	if x.linked && !s.blobs.Now().Before(x.linkEnds) {
		return link.ErrExpired
	}
	return s.mayListChanges(x)
}

// changesRequest is a request for changes.
type changesRequest struct {
	metastore.ChangeQuery
	wait   time.Duration // for a page
	stream bool
}

// changesRequest parses the request. It looks up a position that is not in it.
func (s *Server) changesRequest(x *call) (of changesRequest, err error) {
	q, limit, err := pageOf(x)
	if err != nil {
		return of, err
	}
	of.Limit, of.Prefix, of.Bytes = limit, q.text("prefix"), exchange.PageBytes
	if _, one := q["account"]; !one {
		of.All = true
	} else if of.Account, err = blob.ParseAccount(q.text("account")); err != nil {
		return of, err
	}
	for name := range strings.SplitSeq(q.text("kinds"), ",") {
		kind, ok := metastore.ParseChangeKind(name)
		if !ok && q.text("kinds") != "" {
			return of, fmt.Errorf("%w: kinds has %.40q, which is none", exchange.ErrParameter, name)
		}
		if ok {
			of.Kinds = of.Kinds.Add(kind)
		}
	}
	of.stream = x.Request.Method == http.MethodGet && acceptsEvents(x.Request.Header)
	if text, ok := q["wait"]; ok {
		n, err := strconv.ParseUint(text[0], 10, 8)
		if of.wait = time.Duration(n) * time.Second; err != nil || of.wait > maxChangesWait || of.stream {
			return of, fmt.Errorf("%w: wait must be a number of seconds from 0 to %d, and is for pages only", exchange.ErrParameter, int(maxChangesWait.Seconds()))
		}
	}
	after, of400 := q.text("after"), fmt.Errorf("%w: after must be a position from a response, or start", exchange.ErrParameter)
	if last := x.Request.Header.Get("Last-Event-Id"); of.stream && last != "" {
		after, of400 = last, fmt.Errorf("%w: Last-Event-ID must be the id of an event", exchange.ErrHeader)
	}
	var ok bool
	switch after {
	case "":
		of.After, err = s.feed.End(x.Request.Context())
	case "start":
		of.After, err = s.feed.Start(x.Request.Context(), of.Account, of.All)
	default:
		if of.After, ok = metastore.ParseFeedPosition(after); !ok {
			err = of400
		}
	}
	return of, err
}

// acceptsEvents reports whether the client asks for server-sent events: by their name, and no less
// than for JSON.
func acceptsEvents(h http.Header) bool {
	quality := map[string]float64{}
	for _, line := range h.Values("Accept") {
		for one := range strings.SplitSeq(line, ",") {
			media, parameters, err := mime.ParseMediaType(one)
			if q, stated := parameters["q"]; stated && err == nil {
				quality[media], err = strconv.ParseFloat(q, 64)
			} else {
				quality[media] = 1
			}
			if err != nil {
				delete(quality, media)
			}
		}
	}
	events := quality["text/event-stream"]
	return events > 0 && events >= quality["application/json"]
}

func (s *Server) getChanges(x *call) error {
	x.Fields.Add("Vary", "Accept")
	of, err := s.changesRequest(x)
	switch {
	case err != nil:
		return err
	case of.stream:
		return s.streamChanges(x, of)
	}
	page, err := s.awaitPage(x, of)
	if err != nil {
		return changesError(err)
	}
	out := wire.ChangePage{Changes: []wire.Change{}, Next: page.Next.String()}
	for i := range page.Changes {
		shown, ok, err := s.shownChange(x, &page.Changes[i])
		if err != nil {
			return err
		}
		if ok {
			out.Changes = append(out.Changes, shown)
		}
	}
	return writePage(x, out, len(page.Changes))
}

// awaitPage returns the next page. Without a wait it has all changes that were acknowledged before
// the request.
func (s *Server) awaitPage(x *call, of changesRequest) (metastore.ChangePage, error) {
	ctx := x.Request.Context()
	if of.wait == 0 || x.Request.Method == http.MethodHead {
		return s.feed.Read(ctx, of.ChangeQuery)
	}
	of.Bytes = waitingBytes
	reader, err := s.feed.Enter(x.Allowance.Holder(), of.ChangeQuery)
	if err != nil {
		return metastore.ChangePage{}, err
	}
	defer reader.Leave()
	page, err := reader.Next(ctx, 0)
	if err != nil || len(page.Changes) > 0 || page.More {
		return page, err
	}
	x.Rest()
	page, err = reader.Next(ctx, of.wait)
	if err != nil && !errors.Is(err, feed.ErrClosed) {
		return page, err
	}
	return page, s.stillMayListChanges(x)
}

// eventStream sends changes as server-sent events.
type eventStream struct {
	server *Server
	x      *call
	out    bytes.Buffer           // not sent yet
	sent   metastore.FeedPosition // the last id
}

// streamChanges sends changes until the client goes, its key ends, or the service drains.
func (s *Server) streamChanges(x *call, of changesRequest) error {
	of.Bytes = waitingBytes
	reader, err := s.feed.Enter(x.Allowance.Holder(), of.ChangeQuery)
	if err != nil {
		return err
	}
	defer reader.Leave()
	x.Rest()
	page, err := reader.Next(x.Request.Context(), 0)
	if err != nil {
		return changesError(err)
	}
	x.Fields.Set("Content-Type", "text/event-stream")
	x.Fields.Set("Cache-Control", "no-store")
	x.Fields.Set("X-Accel-Buffering", "no") // nginx would keep events back
	e := eventStream{server: s, x: x, sent: of.After}
	fmt.Fprintf(&e.out, "retry: %d\nid: %s\n\n", retryStream, of.After)
	if err := e.flush(); err != nil { // the first page may be delayed
		return err
	}
	for quiet := 1; ; quiet++ {
		if err := e.send(&page); err != nil {
			return err
		}
		x.Rest()
		if page, err = reader.Next(x.Request.Context(), recheckEvery); err == nil {
			err = s.stillMayListChanges(x)
		}
		var gone *metastore.ChangesGoneError
		switch {
		case errors.Is(err, feed.ErrClosed):
			return nil // the client continues elsewhere
		case errors.As(err, &gone):
			fmt.Fprintf(&e.out, "event: gone\ndata: {\"restart\":%q}\n\n", gone.Restart)
			return e.flush()
		case err != nil:
			return err
		case len(page.Changes) > 0:
			quiet = 0
		case page.More || quiet%heartbeats == 0:
			e.beat(reader.At())
		}
	}
}

// still returns why the caller may no longer read changes, or nil, while the stream is delayed.
func (e *eventStream) still() error {
	e.x.Rest()
	return e.server.stillMayListChanges(e.x)
}

// beat adds a heartbeat, and the reader's position if it was not sent yet: the changes before it
// were not for this reader.
func (e *eventStream) beat(at metastore.FeedPosition) {
	e.out.WriteString(":\n")
	if at != e.sent {
		e.sent = at
		fmt.Fprintf(&e.out, "id: %s\n", at)
	}
	e.out.WriteString("\n")
}

// send sends an event for each change that the caller may see. It counts as a page against the
// caller's rate, also if nothing was selected from many changes.
func (e *eventStream) send(page *metastore.ChangePage) error {
	if len(page.Changes) > 0 || page.More {
		if err := e.x.PacePage(e.server.feed.Closed(), len(page.Changes), e.still); err != nil {
			return err
		}
		if err := e.x.HoldReply(2 * waitingBytes); err != nil {
			return err
		}
	}
	for i := range page.Changes {
		shown, ok, err := e.server.shownChange(e.x, &page.Changes[i])
		if err != nil {
			return err
		}
		if ok {
			data, err := json.Marshal(shown, json.Deterministic(true))
			if err != nil {
				return err
			}
			fmt.Fprintf(&e.out, "id: %s\nevent: %s\ndata: %s\n\n", shown.Position, shown.Kind, data)
			e.sent = page.Changes[i].Position
		}
		if e.out.Len() >= exchange.ReplyPiece {
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	return e.flush()
}

func (e *eventStream) flush() error {
	if e.out.Len() == 0 {
		return nil
	}
	_, err := e.x.Write(e.out.Bytes())
	if e.out.Reset(); err != nil {
		return err
	}
	return e.x.Out.Flush()
}

// shownChange returns a change as far as the caller may know it.
func (s *Server) shownChange(x *call, c *metastore.Change) (shown wire.Change, ok bool, err error) {
	rules, err := s.places.Account(x.Request.Context(), c.Account)
	if err != nil {
		return shown, false, err
	}
	rule, holds := rules.At(c.Name), x.HoldsRead(c.Account, c.Name)
	versions := x.Local || holds && !x.linked // a link reads no versions
	shown, ok = exchange.ShownChange(c, rule, holds || x.Local && rule.Reads != access.ReadsPaid, versions)
	return shown, ok, nil
}

// changesError adds errChangesGone to a metastore.ChangesGoneError.
func changesError(err error) error {
	var gone *metastore.ChangesGoneError
	if errors.As(err, &gone) {
		return fmt.Errorf("%w: %w", errChangesGone, err)
	}
	return err
}
