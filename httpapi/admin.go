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
	answer := func(method, pattern string, do func(*call, query) (any, error), parameters ...string) {
		add(method, pattern, answering(do, parameters))
	}
	add("GET", "keys", pageHandler(s.admin.Keys, func(p wire.KeyPage) int { return len(p.Keys) }))
	answer("POST", "keys", s.createKey)
	answer("GET", "keys/{keyId}", named("keyId", s.admin.Key))
	answer("PATCH", "keys/{keyId}", s.updateKey, "force")
	answer("POST", "keys/{keyId}/revoke", s.revokeKey, "force")
	add("GET", "groups", pageHandler(s.admin.Groups, func(p wire.GroupPage) int { return len(p.Groups) }))
	answer("GET", "groups/{group}", named("group", s.admin.Group))
	answer("PATCH", "groups/{group}", conditional("group", s.admin.UpdateGroup))
	add("GET", "aliases", pageHandler(s.admin.Aliases, func(p wire.AliasPage) int { return len(p.Aliases) }))
	answer("PUT", "aliases/{bucket}", stating("bucket", s.admin.SetAlias))
	answer("DELETE", "aliases/{bucket}", func(x *call, _ query) (any, error) {
		return nil, s.admin.DeleteAlias(x.Request.Context(), by(x), x.params.Get("bucket"))
	})
	add("GET", "places", s.listPlaces)
	answer("GET", "places/{account}", func(x *call, q query) (any, error) {
		return s.admin.Place(x.Request.Context(), by(x), x.params.Get("account"), q.text("prefix"), q.text("blob"))
	}, "prefix", "blob")
	answer("PATCH", "places/{account}", s.changePlace, "prefix", "blob")
	add("GET", "versions", pageHandler(s.admin.Keepings, func(p wire.KeepingPage) int { return len(p.Accounts) }))
	answer("GET", "versions/{account}", named("account", s.admin.Keeping))
	answer("PUT", "versions/{account}", conditional("account", s.admin.SetKeeping))
	add("GET", "rules", pageHandler(s.admin.RuledAccounts, func(p wire.RulesPage) int { return len(p.Accounts) }))
	answer("GET", "rules/{account}", named("account", s.admin.Rules))
	answer("PUT", "rules/{account}", conditional("account", s.setRules))
	answer("DELETE", "rules/{account}", s.deleteRules)
	answer("POST", "rules/{account}/preview", stating("account", s.admin.PreviewRules))
	add("GET", "webhooks", pageHandler(s.admin.Webhooks, func(p wire.WebhookPage) int { return len(p.Webhooks) }))
	answer("POST", "webhooks", s.createWebhook)
	answer("GET", "webhooks/{webhookId}", named("webhookId", s.admin.Webhook))
	answer("PATCH", "webhooks/{webhookId}", conditional("webhookId", s.admin.UpdateWebhook))
	answer("DELETE", "webhooks/{webhookId}", func(x *call, _ query) (any, error) {
		return nil, s.admin.DeleteWebhook(x.Request.Context(), by(x), x.params.Get("webhookId"))
	})
	answer("POST", "webhooks/{webhookId}/test", named("webhookId", s.admin.TestWebhook))
	add("GET", "damaged", pageHandler(s.admin.Damaged, func(p wire.DamagePage) int { return len(p.Damaged) }))
	add("GET", "uploads", pageHandler(s.openUploads, func(p wire.OpenUploadPage) int { return len(p.Uploads) }))
	add("GET", "actions", pageHandler(s.admin.Actions, func(p wire.ActionPage) int { return len(p.Actions) }))
	answer("GET", "tasks", func(x *call, _ query) (any, error) { return s.admin.Tasks(x.Request.Context(), by(x)) })
	answer("POST", "tasks/{task}/start", named("task", s.admin.StartTask))
	answer("POST", "tasks/{task}/pause", named("task", s.admin.PauseTask))
	answer("POST", "tasks/{task}/resume", named("task", s.admin.ResumeTask))
	answer("GET", "nodes", func(x *call, _ query) (any, error) { return s.admin.Nodes(x.Request.Context(), by(x)) })
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
		if err == nil {
			err = q.only("after", "limit")
		}
		if err != nil {
			return err
		}
		page, err := list(x.Request.Context(), by(x), q.text("after"), limit)
		if err != nil {
			return err
		}
		return writePage(x, page, entries(page))
	}
}

// answering returns a handler that sends the body that do returns, or none, for a request with
// these parameters at most. Unless do's error states something else, a repeated change has no
// second effect.
func answering(do func(*call, query) (any, error), parameters []string) func(*call) error {
	return func(x *call) error {
		q, err := readQuery(x.Request)
		if err == nil {
			err = q.only(parameters...)
		}
		if err != nil {
			return err
		}
		body, err := do(x, q)
		if err != nil {
			return inDoubt(err, doubtError{retryable: true})
		}
		status := http.StatusOK
		switch body := body.(type) {
		case nil:
			x.WriteHeader(http.StatusNoContent)
			return nil
		case wire.Key:
			x.Fields.Set("Etag", body.ETag)
		case wire.Group:
			x.Fields.Set("Etag", body.ETag)
		case wire.Keeping:
			x.Fields.Set("Etag", body.ETag)
		case wire.Rules:
			x.Fields.Set("Etag", body.ETag)
		case wire.Webhook:
			x.Fields.Set("Etag", body.ETag)
		case wire.IssuedWebhook:
			x.Fields.Set("Etag", body.ETag)
			if x.Request.Method == http.MethodPost && body.Remedy == "" {
				status = http.StatusCreated
			}
		case wire.IssuedKey:
			x.Fields.Set("Etag", body.ETag)
			if x.Request.Method == http.MethodPost && body.Remedy == "" {
				status = http.StatusCreated
			}
		}
		return writeJSON(x, status, body)
	}
}

// named returns an operation on the thing that a path's parameter names.
func named[Out any](parameter string, do func(ctx context.Context, by admin.By, name string) (Out, error)) func(*call, query) (any, error) {
	return func(x *call, _ query) (any, error) { return do(x.Request.Context(), by(x), x.params.Get(parameter)) }
}

// stating is named for a request with a body.
func stating[In, Out any](parameter string, do func(ctx context.Context, by admin.By, name string, in In) (Out, error)) func(*call, query) (any, error) {
	return func(x *call, _ query) (any, error) {
		var in In
		if _, err := x.readKnown(&in); err != nil {
			return nil, err
		}
		return do(x.Request.Context(), by(x), x.params.Get(parameter), in)
	}
}

// conditional is stating for a change with a condition, which fails when the change is repeated.
func conditional[In, Out any](parameter string, do func(ctx context.Context, by admin.By, name string, match func(etag string) bool, in In) (Out, error)) func(*call, query) (any, error) {
	return func(x *call, q query) (any, error) {
		match, err := matchOf(x)
		if err != nil {
			return nil, err
		}
		out, err := stating(parameter, func(ctx context.Context, by admin.By, name string, in In) (Out, error) {
			return do(ctx, by, name, match, in)
		})(x, q)
		return out, inDoubt(err, doubtError{})
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

// forced returns the parameter force.
func (q query) forced() (bool, error) {
	if _, set := q["force"]; !set {
		return false, nil
	}
	switch q.text("force") {
	case "false":
		return false, nil
	case "true":
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

func (s *Server) createKey(x *call, _ query) (any, error) {
	var in wire.CreateKey
	body, err := x.readKnown(&in)
	if err != nil {
		return nil, err
	}
	once, err := ownedIdempotency(x, "create-key", "", body)
	if err != nil {
		return nil, err
	}
	issued, err := s.admin.CreateKey(x.Request.Context(), by(x), in, once)
	return issued, inDoubt(err, doubtError{retryable: once != nil})
}

func (s *Server) createWebhook(x *call, _ query) (any, error) {
	var in wire.CreateWebhook
	body, err := x.readKnown(&in)
	if err != nil {
		return nil, err
	}
	once, err := ownedIdempotency(x, "create-webhook", "", body)
	if err != nil {
		return nil, err
	}
	issued, err := s.admin.CreateWebhook(x.Request.Context(), by(x), in, once)
	return issued, inDoubt(err, doubtError{retryable: once != nil})
}

func (s *Server) updateKey(x *call, q query) (any, error) {
	force, err := q.forced()
	if err != nil {
		return nil, err
	}
	u := admin.KeyUpdate{Force: force}
	if u.Match, err = matchOf(x); err != nil {
		return nil, err
	}
	if _, err := x.readKnown(&u.UpdateKey); err != nil {
		return nil, err
	}
	issued, err := s.admin.UpdateKey(x.Request.Context(), by(x), x.params.Get("keyId"), u)
	return issued, inDoubt(err, doubtError{}) // repeated, its condition fails
}

func (s *Server) revokeKey(x *call, q query) (any, error) {
	force, err := q.forced()
	if err != nil {
		return nil, err
	}
	return s.admin.RevokeKey(x.Request.Context(), by(x), x.params.Get("keyId"), force)
}

// setRules is admin.Service.SetRules for a request, which must have the member.
func (s *Server) setRules(ctx context.Context, by admin.By, account string, match func(etag string) bool, in wire.SetRules) (wire.Rules, error) {
	if in.Rules == nil {
		return wire.Rules{}, missingMember("rules")
	}
	return s.admin.SetRules(ctx, by, account, match, in)
}

func (s *Server) deleteRules(x *call, _ query) (any, error) {
	match, err := matchOf(x)
	if err == nil {
		_, err = s.admin.SetRules(x.Request.Context(), by(x), x.params.Get("account"), match, wire.SetRules{})
	}
	return nil, inDoubt(err, doubtError{})
}

// openUploads is admin.Service.Uploads with the bound on pages.
func (s *Server) openUploads(ctx context.Context, by admin.By, after string, limit int) (wire.OpenUploadPage, error) {
	return s.admin.Uploads(ctx, by, after, limit, exchange.PageBytes)
}
