package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"sluice/wire"
)

// Tasks returns the instance's background tasks.
func (a *Admin) Tasks(ctx context.Context) ([]wire.Task, error) {
	list, err := adminCall(ctx, a.c, "list tasks", http.MethodGet, "tasks", nil, nil, func(l *wire.TaskList) error { return checkEach("tasks", l.Tasks, checkTask) })
	return list.Tasks, err
}

// StartTask lets the leader run a task soon. It may be repeated. It returns ErrConflict for a task
// that is paused, or cannot be started.
func (a *Admin) StartTask(ctx context.Context, name string) (wire.Task, error) {
	return a.changeTask(ctx, name, "start")
}

// PauseTask ends a task's run, and lets none begin until ResumeTask. It may be repeated. It returns
// ErrConflict for a task that cannot be paused.
func (a *Admin) PauseTask(ctx context.Context, name string) (wire.Task, error) {
	return a.changeTask(ctx, name, "pause")
}

// ResumeTask ends a task's pause. It may be repeated.
func (a *Admin) ResumeTask(ctx context.Context, name string) (wire.Task, error) {
	return a.changeTask(ctx, name, "resume")
}

func (a *Admin) changeTask(ctx context.Context, name, change string) (wire.Task, error) {
	return adminCall(ctx, a.c, change+" a task", http.MethodPost, "tasks/"+url.PathEscape(name)+"/"+change, nil, nil, func(t *wire.Task) error { return checkSame(t.Task, name, checkTask(t)) })
}

// Nodes returns the instance's nodes that run.
func (a *Admin) Nodes(ctx context.Context) ([]wire.Node, error) {
	list, err := adminCall(ctx, a.c, "list nodes", http.MethodGet, "nodes", nil, nil, func(l *wire.NodeList) error { return checkEach("nodes", l.Nodes, checkNode) })
	return list.Nodes, err
}

// PlaceName names a place: an account, its blobs with names that begin with Prefix, or one blob.
type PlaceName struct {
	Account string
	Prefix  string
	Blob    string // then there is no prefix
}

// Places returns the places with settings, sorted by account and name; in one account only, unless
// account is empty.
func (a *Admin) Places(ctx context.Context, account string) iter.Seq2[wire.Place, error] {
	query := url.Values{}
	setNonEmpty(query, "account", account)
	return adminList(ctx, a.c, "places", orderedList[wire.PlacePage, wire.Place]{
		of: func(p *wire.PlacePage) ([]wire.Place, string) { return p.Places, p.Next }, query: query, opaque: true, check: checkPlace,
		at: func(p *wire.Place) string { return p.Account + "/" + p.Prefix + p.Blob },
		order: func(a, b *wire.Place) int {
			return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Prefix+a.Blob, b.Prefix+b.Blob), cmp.Compare(len(a.Blob), len(b.Blob)))
		},
	})
}

// Place returns a place with the rule that is in force there.
func (a *Admin) Place(ctx context.Context, of PlaceName) (wire.PlaceRule, error) {
	return adminCall(ctx, a.c, "show a place", http.MethodGet, of.path(), nil, of.set, func(p *wire.PlaceRule) error {
		return cmp.Or(of.checkSame(&p.Place), checkWord("reads", p.InForce.Reads, maxWord), checkWord("lists", p.InForce.Lists, maxWord), checkBlock(p.InForce.Blocked))
	})
}

// ChangePlace changes a place's settings. It may be repeated.
func (a *Admin) ChangePlace(ctx context.Context, of PlaceName, change wire.ChangePlace) (wire.Place, error) {
	return adminCall(ctx, a.c, "change a place", http.MethodPatch, of.path(), change, of.set, of.checkSame)
}

func (p PlaceName) path() string { return "places/" + url.PathEscape(p.Account) }

func (p PlaceName) set(r *request) {
	setNonEmpty(r.query, "prefix", p.Prefix)
	setNonEmpty(r.query, "blob", p.Blob)
}

func (p PlaceName) checkSame(got *wire.Place) error {
	return checkSame(got.Prefix+got.Blob, p.Prefix+p.Blob, checkPlace(got))
}
