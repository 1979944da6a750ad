// Package admin has the rules of an instance's administration: who manages which keys, groups and
// aliases, and who sees damage, uploads and recorded actions. It knows neither HTTP nor SQL. Its
// methods take and return the bodies of package wire, so that a command shows the same things
// over HTTP and from a database.
//
// A key with the scope admin for all accounts and names may do everything. Any other administrator
// sees the keys that are valid in its own grants of admin alone, and manages those among them that
// belong to its group. It gives nothing that it does not have: no accounts, names, limits or
// lifetime, and no group but its own.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/access/sealed"
	"sluice/database"
	"sluice/metastore"
)

// Errors. They are wrapped; compare them with errors.Is.
var (
	// ErrNotFound means that the key, group or alias does not exist, or that the administrator may
	// not see it.
	ErrNotFound = errors.New("there is no such thing")
	// ErrBeyond means that an administrator would give or manage more than its own key has.
	ErrBeyond = errors.New("the key of the administrator does not permit this")
	// ErrEverything means that an operation needs admin for all accounts.
	ErrEverything = errors.New(`this needs a key with the scope "admin" for all accounts and names`)
	// ErrLast means that no valid key with admin for all accounts would be left.
	ErrLast = errors.New("no valid key with the scope \"admin\" for all accounts would be left: force=true, or --force, does it all the same")
	// ErrChanged means that a thing is not as the request's condition requires.
	ErrChanged = errors.New("it was changed in the meantime: read it again")
	// ErrConflict means that a thing cannot be so because of another one.
	ErrConflict = errors.New("conflict")
	// ErrInvalid means that a request is not valid.
	ErrInvalid = errors.New("invalid request")
)

// Store is the part of an instance's database that administrators work on.
type Store interface {
	keys.Store
	actions.Store
	metastore.Aliases
	metastore.Versions
	metastore.Rules
	metastore.Webhooks
	metastore.Changes
	places.Store
	metastore.Uploads
	metastore.Usage
	metastore.Integrity
	database.Clock
	database.Nodes
	database.Tasks
}

// Options configure a Service.
type Options struct {
	// S3 seals the keys' S3 secrets. nil: no key can get one.
	S3 *sealed.Box
	// KeyLimits are the limits of groups that have none of their own, as in access.LimiterOptions.
	KeyLimits keys.Limits
	// Nodes returns the nodes that run. nil: those that the database knows of.
	Nodes func(context.Context) ([]database.Node, error)
	// TaskChanged is called when a task was paused, resumed or started. nil: nothing is.
	TaskChanged func()
	// SettingsChanged is called after an account's rules, or which versions it keeps, were changed.
	// nil: nothing is.
	SettingsChanged func()
	// Places are the settings of places that this node applies. nil: reads are public.
	Places *access.Places
	// Webhooks are for webhooks; nil: there are none.
	Webhooks *WebhookOptions
	// Bounds are for administrators of some accounts; zero: DefaultBounds.
	Bounds actions.Bounds
}

// WebhookOptions configure the administration of webhooks.
type WebhookOptions struct {
	// Secrets seals their secrets. nil: none can be made.
	Secrets *sealed.Box
	// CheckURL returns why no webhook can have a URL, or nil.
	CheckURL func(url string) error
	// Test delivers an event to a webhook. It reports false if one is in progress already.
	Test func(ctx context.Context, w metastore.Webhook) (metastore.WebhookResult, bool)
}

// DefaultBounds leave places for the operator, who must be able to block blobs.
var DefaultBounds = actions.Bounds{Keys: 10_000, Places: 1000, AllPlaces: places.Most / 10 * 9, Webhooks: 20, Acts: 2000}

// Service administers an instance. Its methods may be called concurrently.
type Service struct {
	store Store
	opt   Options
}

// New returns a Service.
func New(store Store, opt Options) *Service {
	opt.KeyLimits = opt.KeyLimits.Resolve(keys.NoLimits())
	if opt.Nodes == nil {
		opt.Nodes = store.ListNodes
	}
	if opt.TaskChanged == nil {
		opt.TaskChanged = func() {}
	}
	if opt.SettingsChanged == nil {
		opt.SettingsChanged = func() {}
	}
	if opt.Bounds == (actions.Bounds{}) {
		opt.Bounds = DefaultBounds
	}
	if opt.Places == nil {
		opt.Places = access.NewPlaces(store, access.ReadsPublic, 0)
	}
	return &Service{store, opt}
}

// By is who acts.
type By struct {
	// Caller holds a key. nil stands for the operator at the database, and for everybody
	// on a local instance, who may do everything.
	Caller *access.Caller
	From   string // the client's address, or user@host
}

// actor is who acts, as the database has their key at one keys' version.
type actor struct {
	by      actions.By
	key     *keys.Key // nil: they may do everything
	version int64
	now     time.Time
	bounds  actions.Bounds
}

// actorOf looks up who administers.
func (s *Service) actorOf(ctx context.Context, by By) (a actor, err error) {
	return s.actorWith(ctx, by, access.ScopeAdmin)
}

// actorWith looks up who acts. It returns access.ErrUnknownKey if their key is no longer valid, or
// access.ErrScope if it does not have the scope any more.
func (s *Service) actorWith(ctx context.Context, by By, scope access.Scope) (a actor, err error) {
	a.by.From = by.From
	if a.version, err = s.store.KeysVersion(ctx); err != nil {
		return a, err
	}
	a.now = s.store.Now()
	if by.Caller == nil {
		return a, nil
	}
	k, err := s.store.Key(ctx, by.Caller.ID())
	switch {
	case errors.Is(err, database.ErrNotFound):
		return a, access.ErrUnknownKey
	case err != nil:
		return a, err
	case !valid(&k, a.now):
		return a, access.ErrUnknownKey
	case !slices.ContainsFunc(k.Grants, hasScope(scope)):
		return a, fmt.Errorf("%w %q", access.ErrScope, scope)
	}
	a.key, a.by.Key, a.by.Group = &k, k.ID, k.Group
	if !a.everything() {
		a.bounds = s.opt.Bounds
	}
	return a, nil
}

// everything is actorOf for operations that need admin for all accounts.
func (s *Service) everything(ctx context.Context, by By) (actor, error) {
	a, err := s.actorOf(ctx, by)
	if err == nil && !a.everything() {
		err = ErrEverything
	}
	return a, err
}

// maxDecisions is how often an act is decided while other administrators change keys.
const maxDecisions = 20

// decide calls act, which decides by the keys as they are and has an effect only if they are still
// so; otherwise it decides again.
func (s *Service) decide(ctx context.Context, by By, act func(actor) error) error {
	return s.decideWith(ctx, by, access.ScopeAdmin, act)
}

// decideWith is decide for a key with a scope.
func (s *Service) decideWith(ctx context.Context, by By, scope access.Scope, act func(actor) error) error {
	for range maxDecisions {
		a, err := s.actorWith(ctx, by, scope)
		if err != nil {
			return err
		}
		switch err := act(a); {
		case errors.Is(err, actions.ErrTooMany):
			return fmt.Errorf("%w: %w; an administrator of all accounts may make more", ErrConflict, err)
		case !errors.Is(err, actions.ErrStale):
			return err
		}
	}
	return fmt.Errorf("%w: other administrators change keys all the time", database.ErrBusy)
}

// act returns an act for its record. before and after have no secrets; nil: there is none.
func (a actor) act(name, subject string, accounts []string, before, after any) (*actions.Act, error) {
	act := &actions.Act{Action: actions.Action{By: a.by, Name: name, Subject: subject, Accounts: accounts}, Keys: a.version, Bounds: a.bounds}
	var err, err2 error
	if before != nil {
		act.Before, err = json.Marshal(before)
	}
	if after != nil {
		act.After, err2 = json.Marshal(after)
	}
	return act, errors.Join(err, err2)
}

func valid(k *keys.Key, now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || k.Expires.After(now))
}

func administers(g keys.Grant) bool { return slices.Contains(g.Scopes, string(access.ScopeAdmin)) }

// hasScope returns whether a grant has a scope.
func hasScope(scope access.Scope) func(keys.Grant) bool {
	return func(g keys.Grant) bool { return administers(g) || slices.Contains(g.Scopes, string(scope)) }
}

// everything reports whether they administer all accounts and names.
func (a actor) everything() bool { return a.key == nil || administersAll(a.key) }

func administersAll(k *keys.Key) bool { return covers(k.Grants, keys.Grant{}, administers) }

// covers reports whether grants that count include a grant: all names of each of its accounts.
func covers(own []keys.Grant, g keys.Grant, counts func(keys.Grant) bool) bool {
	include := func(accounts ...string) bool {
		return slices.ContainsFunc(own, func(o keys.Grant) bool {
			known := o.Accounts == nil || len(accounts) > 0 && slices.Contains(o.Accounts, accounts[0])
			return counts(o) && known && strings.HasPrefix(g.Prefix, o.Prefix)
		})
	}
	if g.Accounts == nil {
		return include()
	}
	return !slices.ContainsFunc(g.Accounts, func(account string) bool { return !include(account) })
}

// sees reports whether they may see a key.
func (a actor) sees(k *keys.Key) bool {
	return a.everything() || k.ID == a.key.ID || a.includes(k.Grants)
}

func (a actor) includes(grants []keys.Grant) bool {
	return a.everything() || !slices.ContainsFunc(grants, func(g keys.Grant) bool { return !covers(a.key.Grants, g, administers) })
}

// within reports whether others have every right in grants.
func within(grants, others []keys.Grant) bool {
	return !slices.ContainsFunc(grants, func(g keys.Grant) bool {
		return !covers(others, g, func(o keys.Grant) bool {
			return administers(o) || !slices.ContainsFunc(g.Scopes, func(scope string) bool { return !slices.Contains(o.Scopes, scope) })
		})
	})
}

// mayManage returns why they may not change or revoke a key, or nil.
func (a actor) mayManage(k *keys.Key) error {
	switch {
	case !a.sees(k):
		return fmt.Errorf("%w: the key %q", ErrNotFound, k.ID)
	case a.everything():
		return nil
	case k.Group != a.key.Group:
		return fmt.Errorf("%w: the key belongs to the group %q, and yours to %q", ErrBeyond, k.Group, a.key.Group)
	case !a.includes(k.Grants):
		return fmt.Errorf("%w: the key has more grants than yours administers", ErrBeyond)
	}
	return nil
}

// mayGive returns why they may not let a key become so, or nil. It was had before, unless it is new
// or gets a secret, which is fresh.
func (a actor) mayGive(k *keys.Key, fresh bool, had keys.Key) error {
	if a.key == nil {
		return nil
	}
	end := a.key.Expires
	outlives := !end.IsZero() && (k.Expires.IsZero() || k.Expires.After(end))
	extended := fresh || !within(k.Grants, had.Grants) || !had.Expires.IsZero() && (k.Expires.IsZero() || k.Expires.After(had.Expires))
	switch {
	case !a.includes(k.Grants):
		return fmt.Errorf("%w: each grant must be for accounts and names that your key administers", ErrBeyond)
	case outlives && extended:
		return fmt.Errorf("%w: the key must not outlive yours, which expires at %s", ErrBeyond, end.Format(time.RFC3339))
	}
	return nil
}

// checkLast returns ErrLast if a key's change leaves no valid key with admin for all accounts, at
// once or when the changed key expires earlier than before. The operator at the database can always
// make one.
func (s *Service) checkLast(ctx context.Context, a actor, before, after *keys.Key, force bool) error {
	at := a.now
	guards := func(k *keys.Key) bool { return valid(k, at) && administersAll(k) }
	if a.key == nil || force || !guards(before) {
		return nil
	}
	if guards(after) {
		if at = after.Expires; at.IsZero() || !valid(before, at) {
			return nil
		}
	}
	for last := ""; ; {
		page, err := s.store.ListKeys(ctx, last, listPage)
		if err != nil {
			return err
		}
		for i := range page {
			if last = page[i].ID; last != before.ID && guards(&page[i]) {
				return nil
			}
		}
		if len(page) < listPage {
			return ErrLast
		}
	}
}

const (
	// listPage is how many rows are read at a time: a row has up to 130 KB.
	listPage = 100
	// pageBytes bounds a page's texts; a page has at least one entry.
	pageBytes = 512 << 10
)
