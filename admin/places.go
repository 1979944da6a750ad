package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/access/places"
	"sluice/blob"
	"sluice/wire"
)

const (
	// maxPlace bounds a place's prefix, or its blob's name, in bytes.
	maxPlace = 1024
	// maxReason bounds the reason for a block, in bytes.
	maxReason = 500
)

// ErrOpening means that an account may not open itself beyond the instance's reads.
var ErrOpening = errors.New("the operator does not permit the account to open itself beyond --reads: an administrator of all accounts permits it by mayOpen, or sluice place set ACCOUNT --may-open")

// ErrGuarded means that an account is protected from being opened.
var ErrGuarded = errors.New("the account has a public access block, which refuses to open it: change that first")

// parsePlace returns the place that a request names. Only one of prefix and name may be set.
func parsePlace(account, prefix, name string) (p places.Place, err error) {
	if p.Account, err = blob.ParseAccount(account); err != nil {
		return p, err
	}
	p.Name, p.Exact = prefix+name, name != ""
	switch {
	case prefix != "" && name != "":
		err = fmt.Errorf("%w: a place has a prefix or a blob, not both", ErrInvalid)
	default:
		err = checkPlaceName(p.Name)
	}
	return p, err
}

// checkPlaceName refuses the names that no place has. S3's markers may have the character DEL.
func checkPlaceName(name string) error {
	switch {
	case len(name) > maxPlace:
		return fmt.Errorf("%w: a place's name has at most %d bytes; block a longer blob by a prefix", ErrInvalid, maxPlace)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) && r != '\x7f' }):
		return fmt.Errorf("%w: a place's name is UTF-8 without control characters", ErrInvalid)
	}
	return nil
}

// administersPlace reports whether they administer all blobs at a place.
func (a actor) administersPlace(p places.Place) bool {
	return a.includes([]keys.Grant{{Accounts: []string{p.Account}, Prefix: p.Name}})
}

// Places returns the places that the administrator administers, sorted by account and name; in one
// account only unless account is empty.
func (s *Service) Places(ctx context.Context, by By, account, after string, limit int) (out wire.PlacePage, err error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return out, err
	}
	if account != "" {
		if account, err = blob.ParseAccount(account); err != nil {
			return out, err
		}
	}
	from, err := placeOf(after)
	if err != nil {
		return out, err
	}
	out.Places = []wire.Place{}
	for range maxScanned / listPage {
		page, err := s.store.ListPlaces(ctx, account, from, listPage)
		if err != nil {
			return wire.PlacePage{}, err
		}
		for _, row := range page {
			if !a.administersPlace(row.Place) {
				continue
			}
			if len(out.Places) == limit {
				out.Next = tokenOf(from)
				return out, nil
			}
			from = row.Place
			out.Places = append(out.Places, placeWith(row.Place, row.Settings))
		}
		if len(page) < listPage {
			return out, nil
		}
		from = page[len(page)-1].Place
	}
	out.Next = tokenOf(from)
	return out, nil
}

// tokenOf returns the parameter after for the list behind a place.
func tokenOf(p places.Place) string {
	kind := "0"
	if p.Exact {
		kind = "1"
	}
	return base64.RawURLEncoding.EncodeToString([]byte(p.Account + "\x00" + kind + p.Name))
}

func placeOf(token string) (p places.Place, err error) {
	if token == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(token)
	account, rest, found := strings.Cut(string(text), "\x00")
	if err != nil || !found || rest == "" {
		return p, fmt.Errorf("%w: after must be the next of an earlier page", ErrInvalid)
	}
	return places.Place{Account: account, Name: rest[1:], Exact: rest[0] == '1'}, nil
}

// Place returns a place with the rule in force there. prefix and name name it as in ChangePlace.
func (s *Service) Place(ctx context.Context, by By, account, prefix, name string) (out wire.PlaceRule, err error) {
	p, err := parsePlace(account, prefix, name)
	if err != nil {
		return out, err
	}
	a, err := s.actorOf(ctx, by)
	switch {
	case err != nil:
		return out, err
	case !a.administersPlace(p):
		return out, fmt.Errorf("%w: it must administer all blobs of the place", ErrBeyond)
	}
	if err := s.opt.Places.Renew(ctx); err != nil {
		return out, err
	}
	rules, err := s.opt.Places.Account(ctx, p.Account)
	if err != nil {
		return out, err
	}
	rule := rules.Prefix(p.Name)
	if p.Exact {
		rule = rules.At(p.Name)
	}
	out.Place = placeWith(p, rules.Settings(p))
	out.Guarded = rules.Settings(places.Place{Account: p.Account}).Guard != 0
	out.InForce = wire.RuleInForce{Reads: string(rule.Reads), Lists: string(rules.Lists(p.Name)), Blocked: blockOf(rule.Blocked)}
	return out, nil
}

func blockOf(b *places.Block) *wire.Block {
	if b == nil {
		return nil
	}
	return &wire.Block{Reason: b.Reason, By: b.By, Since: b.Since}
}

func placeWith(p places.Place, s places.Settings) wire.Place {
	out := wire.Place{Account: p.Account, Prefix: p.Name, Reads: s.Reads, Lists: s.Lists, MayOpen: s.MayOpen, Guarded: s.Guard != 0, Blocked: blockOf(s.Blocked)}
	if p.Exact {
		out.Prefix, out.Blob = "", p.Name
	}
	return out
}

// ChangePlace changes the settings of an account's blobs with names that begin with prefix, or of
// the blob with this name. Blocks, and whether an account may open itself, need admin for all
// accounts. An empty setting is removed.
func (s *Service) ChangePlace(ctx context.Context, by By, account, prefix, name string, in wire.ChangePlace) (out wire.Place, err error) {
	p, err := parsePlace(account, prefix, name)
	if err == nil {
		err = s.checkPlace(p, in)
	}
	if err != nil {
		return out, err
	}
	everything := in.MayOpen != nil || in.Block != nil
	of, err := s.changePlaces(ctx, by, p, []places.Place{p}, everything, func(a actor, of map[places.Place]places.Settings) (*actions.Act, error) {
		now := of[p]
		before := placeWith(p, now)
		if err := s.change(&now, in, of[places.Place{Account: p.Account}], a.by.Key); err != nil {
			return nil, err
		}
		of[p] = now
		return a.act("place.set", subjectOf(p), []string{p.Account}, before, placeWith(p, now))
	})
	return placeWith(p, of[p]), err
}

// changePlaces changes some places at and below one, or if some is nil all in its account, for who
// administers that, or with everything all accounts.
func (s *Service) changePlaces(ctx context.Context, by By, at places.Place, some []places.Place, everything bool, change func(actor, map[places.Place]places.Settings) (*actions.Act, error)) (of map[places.Place]places.Settings, err error) {
	err = s.decide(ctx, by, func(a actor) (err error) {
		switch {
		case everything && !a.everything():
			return ErrEverything
		case !a.administersPlace(at):
			return fmt.Errorf("%w: it must administer all blobs of the place", ErrBeyond)
		}
		of, err = s.store.ChangePlaces(ctx, at.Account, some, func(of map[places.Place]places.Settings) (*actions.Act, error) { return change(a, of) })
		if errors.Is(err, places.ErrTooMany) {
			err = fmt.Errorf("%w: there are %d places, the most that an instance can have", ErrConflict, places.Most)
		}
		return err
	})
	return of, err
}

// Opening is a permission for everybody, to read the blobs with names that begin with Name or the
// one of this name, or to list them.
type Opening struct {
	Lists bool
	Exact bool
	Name  string
}

// Reopen replaces everybody's permissions in an account by the wanted ones, in one transaction.
func (s *Service) Reopen(ctx context.Context, by By, account string, wanted []Opening) error {
	at, err := parsePlace(account, "", "")
	if err != nil {
		return err
	}
	for _, o := range wanted {
		if err := checkPlaceName(o.Name); err != nil {
			return err
		}
	}
	_, err = s.changePlaces(ctx, by, at, nil, false, func(a actor, of map[places.Place]places.Settings) (*actions.Act, error) {
		whole, was := of[at], maps.Clone(of)
		for p, now := range of {
			for _, one := range []struct {
				now   *string
				lists bool
			}{{&now.Reads, false}, {&now.Lists, true}} {
				if access.Reads(*one.now).Everybody() && !slices.Contains(wanted, Opening{one.lists, p.Exact, p.Name}) {
					*one.now = ""
				}
			}
			of[p] = now
		}
		public := string(access.ReadsPublic)
		for _, o := range wanted {
			p := places.Place{Account: at.Account, Name: o.Name, Exact: o.Exact}
			now, in := of[p], wire.ChangePlace{Reads: &public}
			has := now.Reads
			if o.Lists {
				in, has = wire.ChangePlace{Lists: &public}, now.Lists
			}
			if access.Reads(has).Everybody() && whole.MayOpen && whole.Guard&places.RefusePolicies == 0 {
				continue // otherwise it has no effect, or is protected, and is refused
			}
			if err := s.change(&now, in, whole, a.by.Key); err != nil {
				return nil, err
			}
			of[p] = now
		}
		before, after := changedPlaces(was, of)
		return a.act("place.reopen", at.Account, []string{at.Account}, before, after)
	})
	return err
}

// changedPlaces returns the places with different settings, as they were and as they are, by name.
func changedPlaces(was, is map[places.Place]places.Settings) (before, after []wire.Place) {
	for _, p := range slices.SortedFunc(maps.Keys(is), func(a, b places.Place) int { return strings.Compare(a.Name, b.Name) }) {
		if !is[p].Same(was[p]) {
			before, after = append(before, placeWith(p, was[p])), append(after, placeWith(p, is[p]))
		}
	}
	return before, after
}

// subjectOf returns a place for an action's record.
func subjectOf(p places.Place) string {
	if p.Name == "" {
		return p.Account
	}
	return p.Account + "/" + p.Name
}

// checkPlace refuses settings that a place cannot have.
func (s *Service) checkPlace(p places.Place, in wire.ChangePlace) error {
	one := func(setting *string, of ...access.Reads) bool {
		for _, r := range of {
			if setting == nil || *setting == "" || *setting == string(r) {
				return true
			}
		}
		return false
	}
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	switch {
	case !one(in.Reads, access.ReadsInstance, access.ReadsPublic, access.ReadsKey, access.ReadsFree):
		return fmt.Errorf("%w: reads is instance, public, key, free or empty", ErrInvalid)
	case in.Reads != nil && *in.Reads == string(access.ReadsFree) && s.opt.Places.Instance() != access.ReadsPaid:
		return fmt.Errorf("%w: only where reads are paid a place can be free", ErrInvalid)
	case !one(in.Lists, access.ReadsInstance, access.ReadsPublic, access.ReadsKey):
		return fmt.Errorf("%w: lists is instance, public, key or empty", ErrInvalid)
	case in.Lists != nil && *in.Lists != "" && p.Exact:
		return fmt.Errorf("%w: a single blob has no setting for lists", ErrInvalid)
	case in.MayOpen != nil && (p.Name != "" || p.Exact):
		return fmt.Errorf("%w: mayOpen is a setting of whole accounts", ErrInvalid)
	case in.Block != nil && (len(*in.Block) > maxReason || strings.ContainsFunc(*in.Block, unprintable)):
		return fmt.Errorf("%w: a reason is printable text of at most %d bytes", ErrInvalid, maxReason)
	}
	return nil
}

// change applies a request to a place's settings. account has the whole account's, before.
func (s *Service) change(now *places.Settings, in wire.ChangePlace, account places.Settings, by string) error {
	mayOpen := account.MayOpen
	if in.MayOpen != nil {
		now.MayOpen, mayOpen = *in.MayOpen, *in.MayOpen
	}
	instance := s.opt.Places.Instance()
	for _, one := range []struct {
		wanted, now *string
		own         access.Reads
	}{{in.Reads, &now.Reads, instance}, {in.Lists, &now.Lists, instance.Lists()}} {
		if one.wanted == nil {
			continue
		}
		gives := access.Reads(*one.wanted)
		if gives == access.ReadsInstance || gives == "" && *one.now != "" && !access.Reads(*one.now).Everybody() {
			gives = one.own
		}
		switch {
		case gives != "" && gives.Opener(one.own) && !mayOpen:
			return ErrOpening
		case gives.Everybody() && account.Guard&places.RefusePolicies != 0:
			return ErrGuarded
		}
		*one.now = *one.wanted
	}
	if in.Block != nil {
		if now.Blocked = nil; *in.Block != "" {
			now.Blocked = &places.Block{Reason: *in.Block, By: by}
		}
	}
	return nil
}

// SetGuard sets an account's protections from being opened.
func (s *Service) SetGuard(ctx context.Context, by By, account string, guard places.Guard) error {
	p, err := parsePlace(account, "", "")
	if err != nil {
		return err
	}
	_, err = s.changePlaces(ctx, by, p, []places.Place{p}, false, func(a actor, of map[places.Place]places.Settings) (*actions.Act, error) {
		now := of[p]
		before := protections(now.Guard)
		now.Guard = guard
		of[p] = now
		return a.act("place.guard", p.Account, []string{p.Account}, before, protections(guard))
	})
	return err
}

// protections returns a guard for an action's record, in the words of S3's public access block.
func protections(g places.Guard) map[string]bool {
	return map[string]bool{
		"blockPublicAcls": g&places.RefuseLists != 0, "ignorePublicAcls": g&places.IgnoreLists != 0,
		"blockPublicPolicy": g&places.RefusePolicies != 0, "restrictPublicBuckets": g&places.IgnorePolicies != 0,
	}
}
