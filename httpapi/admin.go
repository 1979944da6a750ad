package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"sluice/access"
	"sluice/admin"
	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/httpapi/internal/router"
	"sluice/wire"
)

// adminRoutes returns the routes for administrators. Package admin decides what each of them may
// do.
func adminRoutes(s *Server) []router.Route[operation] {
	var table []router.Route[operation]
	add := func(method, pattern string, handle func(*call) error) {
		table = append(table, router.Route[operation]{Method: method, Pattern: "/v1/admin/" + pattern,
			Value: operation{rule: requireScope(access.ScopeAdmin), handle: handle, writes: method != http.MethodGet}})
	}
	add("GET", "keys", pageHandler(s.admin.Keys, func(p wire.KeyPage) int { return len(p.Keys) }))
	add("POST", "keys", s.createKey)
	add("GET", "keys/{keyId}", s.getKey)
	add("PATCH", "keys/{keyId}", s.updateKey)
	add("POST", "keys/{keyId}/revoke", s.revokeKey)
	add("GET", "groups", pageHandler(s.admin.Groups, func(p wire.GroupPage) int { return len(p.Groups) }))
	add("GET", "groups/{group}", s.getGroup)
	add("PATCH", "groups/{group}", s.updateGroup)
	add("GET", "aliases", pageHandler(s.admin.Aliases, func(p wire.AliasPage) int { return len(p.Aliases) }))
	add("PUT", "aliases/{bucket}", s.putAlias)
	add("DELETE", "aliases/{bucket}", s.deleteAlias)
	add("GET", "places", s.listPlaces)
	add("GET", "places/{account}", s.getPlace)
	add("PATCH", "places/{account}", s.changePlace)
	add("GET", "damaged", pageHandler(s.admin.Damaged, func(p wire.DamagePage) int { return len(p.Damaged) }))
	add("GET", "uploads", pageHandler(s.openUploads, func(p wire.OpenUploadPage) int { return len(p.Uploads) }))
	add("GET", "actions", pageHandler(s.admin.Actions, func(p wire.ActionPage) int { return len(p.Actions) }))
	add("GET", "tasks", listHandler(s.admin.Tasks))
	add("POST", "tasks/{task}/start", taskHandler(s.admin.StartTask))
	add("POST", "tasks/{task}/pause", taskHandler(s.admin.PauseTask))
	add("POST", "tasks/{task}/resume", taskHandler(s.admin.ResumeTask))
	add("GET", "nodes", listHandler(s.admin.Nodes))
	return table
}

// AdminHandler serves the routes for administrators, below the base path, if Config.AdminApart is
// set: on an address of their own. It returns nil otherwise.
func (s *Server) AdminHandler() (pattern string, handler http.Handler) {
	if s.adminRouter == nil {
		return "", nil
	}
	return s.basePath + "/v1/admin/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveFrom(s.adminRouter, w, r) })
}

// by returns who sends a request.
func by(x *call) admin.By {
	return admin.By{Caller: x.Caller, From: x.From()}
}

// pageHandler returns a handler for a list's pages.
func pageHandler[P any](list func(ctx context.Context, by admin.By, after string, limit int) (P, error), entries func(P) int) func(*call) error {
	return func(x *call) error {
		q, limit, err := pageOf(x)
		if err != nil {
			return err
		}
		if err := q.only("after", "limit"); err != nil {
			return err
		}
		if err := x.HoldPage(limit); err != nil {
			return err
		}
		page, err := list(x.Request.Context(), by(x), q.text("after"), limit)
		if err != nil {
			return err
		}
		return writePage(x, page, entries(page))
	}
}

// listHandler returns a handler for a list without pages.
func listHandler[L any](list func(ctx context.Context, by admin.By) (L, error)) func(*call) error {
	return func(x *call) error {
		if _, err := parameters(x); err != nil {
			return err
		}
		out, err := list(x.Request.Context(), by(x))
		if err != nil {
			return err
		}
		return writeJSON(x, http.StatusOK, out)
	}
}

// taskHandler returns a handler for a change of a task. Repeated, it has no effect.
func taskHandler(change func(ctx context.Context, by admin.By, name string) (wire.Task, error)) func(*call) error {
	return func(x *call) error {
		if _, err := parameters(x); err != nil {
			return err
		}
		out, err := change(x.Request.Context(), by(x), x.params.Get("task"))
		if err != nil {
			return inDoubt(err, doubtError{retryable: true})
		}
		return writeJSON(x, http.StatusOK, out)
	}
}

// readKnown decodes a body, and refuses members that are not known: an administrator relies on
// each. There must be a body.
func (x *call) readKnown(into any) (body []byte, err error) {
	if body, err = readJSON(x.Request, into, json.RejectUnknownMembers(true)); err == nil && len(body) == 0 {
		err = fmt.Errorf("%w: it must be a JSON object", errMalformedJSON)
	}
	if err != nil {
		return nil, err
	}
	return body, x.Recheck(x.Request.Context())
}

// only returns an error if there are parameters with other names.
func (q query) only(names ...string) error {
	for name := range q {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%w: %.40q is not one of this request; they are: %s", exchange.ErrParameter, name, strings.Join(names, ", "))
		}
	}
	return nil
}

// parameters checks that a request has no parameters with other names, and returns them.
func parameters(x *call, names ...string) (query, error) {
	q, err := readQuery(x.Request)
	if err == nil {
		err = q.only(names...)
	}
	return q, err
}

// forced returns the parameter force.
func forced(x *call) (bool, error) {
	q, err := parameters(x, "force")
	switch text := q.text("force"); {
	case err != nil:
		return false, err
	case text == "" && len(q) == 0, text == "false":
		return false, nil
	case text == "true":
		return true, nil
	}
	return false, fmt.Errorf("%w: force must be true or false", exchange.ErrParameter)
}

// matchOf returns the condition that an update must have.
func matchOf(x *call) (func(etag string) bool, error) {
	if len(x.Request.Header.Values("If-Match")) == 0 {
		return nil, errNoIfMatch
	}
	c := headers.ParseConditions(x.Request.Header)
	return func(etag string) bool { return c.ForWrite(&headers.Validators{ETag: etag}) == headers.ConditionHolds }, c.Malformed()
}

// writeTagged sends a body that has an ETag.
func writeTagged(x *call, status int, etag string, body any) error {
	x.Fields.Set("Etag", etag)
	return writeJSON(x, status, body)
}

func (s *Server) createKey(x *call) error {
	if _, err := parameters(x); err != nil {
		return err
	}
	var in wire.CreateKey
	body, err := x.readKnown(&in)
	if err != nil {
		return err
	}
	once, err := ownedIdempotency(x, "create-key", "", body)
	if err != nil {
		return err
	}
	issued, err := s.admin.CreateKey(x.Request.Context(), by(x), in, once)
	if err != nil {
		return inDoubt(err, doubtError{retryable: once != nil})
	}
	status := http.StatusCreated
	if issued.Remedy != "" {
		status = http.StatusOK
	}
	return writeTagged(x, status, issued.ETag, issued)
}

func (s *Server) getKey(x *call) error {
	if _, err := parameters(x); err != nil {
		return err
	}
	k, err := s.admin.Key(x.Request.Context(), by(x), x.params.Get("keyId"))
	if err != nil {
		return err
	}
	return writeTagged(x, http.StatusOK, k.ETag, k)
}

func (s *Server) updateKey(x *call) error {
	force, err := forced(x)
	if err != nil {
		return err
	}
	u := admin.KeyUpdate{Force: force}
	if u.Match, err = matchOf(x); err != nil {
		return err
	}
	if _, err := x.readKnown(&u.UpdateKey); err != nil {
		return err
	}
	issued, err := s.admin.UpdateKey(x.Request.Context(), by(x), x.params.Get("keyId"), u)
	if err != nil { // repeated, its condition fails
		return inDoubt(err, doubtError{})
	}
	return writeTagged(x, http.StatusOK, issued.ETag, issued)
}

func (s *Server) revokeKey(x *call) error {
	force, err := forced(x)
	if err != nil {
		return err
	}
	k, err := s.admin.RevokeKey(x.Request.Context(), by(x), x.params.Get("keyId"), force)
	if err != nil {
		return inDoubt(err, doubtError{retryable: true})
	}
	return writeTagged(x, http.StatusOK, k.ETag, k)
}

func (s *Server) getGroup(x *call) error {
	if _, err := parameters(x); err != nil {
		return err
	}
	g, err := s.admin.Group(x.Request.Context(), by(x), x.params.Get("group"))
	if err != nil {
		return err
	}
	return writeTagged(x, http.StatusOK, g.ETag, g)
}

func (s *Server) updateGroup(x *call) error {
	if _, err := parameters(x); err != nil {
		return err
	}
	match, err := matchOf(x)
	if err != nil {
		return err
	}
	var in wire.UpdateGroup
	if _, err := x.readKnown(&in); err != nil {
		return err
	}
	g, err := s.admin.UpdateGroup(x.Request.Context(), by(x), x.params.Get("group"), match, in)
	if err != nil {
		return inDoubt(err, doubtError{})
	}
	return writeTagged(x, http.StatusOK, g.ETag, g)
}

func (s *Server) putAlias(x *call) error {
	if _, err := parameters(x); err != nil {
		return err
	}
	var in wire.SetAlias
	if _, err := x.readKnown(&in); err != nil {
		return err
	}
	alias, err := s.admin.SetAlias(x.Request.Context(), by(x), x.params.Get("bucket"), in)
	if err != nil {
		return inDoubt(err, doubtError{retryable: true})
	}
	return writeJSON(x, http.StatusOK, alias)
}

func (s *Server) deleteAlias(x *call) error {
	if _, err := parameters(x); err != nil {
		return err
	}
	if err := s.admin.DeleteAlias(x.Request.Context(), by(x), x.params.Get("bucket")); err != nil {
		return inDoubt(err, doubtError{retryable: true})
	}
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// openUploads is admin.Service.Uploads with the bound on pages.
func (s *Server) openUploads(ctx context.Context, by admin.By, after string, limit int) (wire.OpenUploadPage, error) {
	return s.admin.Uploads(ctx, by, after, limit, exchange.PageBytes)
}
