package keys

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/cmd/sluice/internal/cli"
	"sluice/wire"
)

// grantFlags describe what a key allows: one grant by its parts, or several.
type grantFlags struct {
	Scopes      []string `placeholder:"SCOPE" help:"Operations that the key allows: read, create (to store blobs, and replace, move or delete none), write, channels, or admin for all of them."`
	Accounts    []string `placeholder:"ACCOUNT" help:"Accounts on which it allows them."`
	AllAccounts bool     `help:"Allow them on all accounts."`
	Prefix      *string  `placeholder:"PREFIX" help:"Allow them only on blobs with names that begin with this, such as photos/."`
	Grants      []string `name:"grant" sep:"none" placeholder:"GRANT" help:"A grant as SCOPE[,SCOPE]@ACCOUNT[/PREFIX], with * for all accounts, in place of the flags before. Repeat it for a key that allows more in some places, such as create@a and write@a/locks/."`
}

// any reports whether a flag is set.
func (f *grantFlags) any() bool { return f.parts() || f.Grants != nil }

func (f *grantFlags) parts() bool {
	return f.Scopes != nil || f.Accounts != nil || f.AllAccounts || f.Prefix != nil
}

// errOneOfTwo refuses a grant without accounts, and with two kinds of them.
var errOneOfTwo = errors.New("--accounts or --all-accounts: exactly one of the two is required")

// fresh returns a new key's grants.
func (f *grantFlags) fresh() ([]wire.Grant, error) {
	if f.Grants != nil {
		return f.several()
	}
	var errs []error
	if f.Scopes == nil {
		_, err := access.ParseScopes(nil)
		errs = append(errs, fmt.Errorf("--scopes: %w", err))
	}
	if len(f.Accounts) == 0 && !f.AllAccounts {
		errs = append(errs, errOneOfTwo)
	}
	g, err := f.changed(wire.Grant{})
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	checked, err := access.CheckGrants([]keys.Grant{keys.Grant(g)})
	if err != nil {
		return nil, fmt.Errorf("--prefix: %w", err)
	}
	return onWire(checked), nil
}

// of returns the grants that a key has after the change, if it had these.
func (f *grantFlags) of(had []wire.Grant) ([]wire.Grant, error) {
	switch {
	case f.Grants != nil:
		return f.several()
	case len(had) != 1:
		return nil, cli.Usagef("it has %d grants: name all that it shall have, each with --grant", len(had))
	}
	g, err := f.changed(had[0])
	return []wire.Grant{g}, err
}

// changed returns a grant with the parts that the flags name.
func (f *grantFlags) changed(g wire.Grant) (wire.Grant, error) {
	var errs []error
	if f.Scopes != nil {
		scopes, err := access.ParseScopes(f.Scopes)
		if err != nil {
			errs = append(errs, fmt.Errorf("--scopes: %w", err))
		}
		g.Scopes = nil
		for _, s := range scopes {
			g.Scopes = append(g.Scopes, string(s))
		}
	}
	if f.AllAccounts {
		g.Accounts = nil
	}
	if len(f.Accounts) > 0 {
		if f.AllAccounts {
			errs = append(errs, errOneOfTwo)
		}
		accounts, err := parseAccounts(f.Accounts)
		g.Accounts, errs = accounts, append(errs, err)
	}
	if f.Prefix != nil {
		g.Prefix = *f.Prefix
	}
	return g, errors.Join(errs...)
}

// several returns the grants that --grant describes.
func (f *grantFlags) several() ([]wire.Grant, error) {
	grants, err := parseGrants(f.Grants)
	if f.parts() {
		err = errors.Join(errors.New("--grant: set it without --scopes, --accounts, --all-accounts and --prefix"), err)
	}
	return onWire(grants), err
}

// onWire returns grants as they are in requests.
func onWire(grants []keys.Grant) (out []wire.Grant) {
	for _, g := range grants {
		out = append(out, wire.Grant(g))
	}
	return out
}

// parseAccounts returns accounts in their canonical form.
func parseAccounts(texts []string) (accounts []string, err error) {
	for _, text := range texts {
		account, parseErr := blob.ParseAccount(text)
		if parseErr != nil {
			err = errors.Join(err, fmt.Errorf("--accounts: %w", parseErr))
		}
		accounts = append(accounts, account)
	}
	return accounts, err
}

// parseGrants parses grants. Those that differ in their accounts alone are one.
func parseGrants(texts []string) (grants []keys.Grant, err error) {
	for _, text := range texts {
		one, err := parseGrant(text)
		if err != nil {
			return nil, fmt.Errorf("--grant: %w", err)
		}
		g := one[0]
		same := slices.IndexFunc(grants, func(o keys.Grant) bool {
			return o.Prefix == g.Prefix && slices.Equal(o.Scopes, g.Scopes) && o.Accounts != nil && g.Accounts != nil
		})
		if same >= 0 {
			grants[same].Accounts = append(grants[same].Accounts, g.Accounts...)
			continue
		}
		grants = append(grants, g)
	}
	if grants, err = access.CheckGrants(grants); err != nil {
		return nil, fmt.Errorf("--grant: %w", err)
	}
	return grants, nil
}

// parseGrant parses SCOPE[,SCOPE]@ACCOUNT[/PREFIX] as one grant.
func parseGrant(text string) ([]keys.Grant, error) {
	scopes, rest, found := strings.Cut(text, "@")
	if !found {
		return nil, fmt.Errorf("%q must be SCOPE[,SCOPE]@ACCOUNT[/PREFIX], with * for all accounts", text)
	}
	account, prefix, _ := strings.Cut(rest, "/")
	g := keys.Grant{Scopes: strings.Split(scopes, ","), Prefix: prefix}
	if account != "*" {
		parsed, err := blob.ParseAccount(account)
		if err != nil {
			return nil, err
		}
		g.Accounts = []string{parsed}
	}
	return access.CheckGrants([]keys.Grant{g})
}

// grantTexts returns a grant as --grant has it, once for each account.
func grantTexts(g wire.Grant) (texts []string) {
	accounts := g.Accounts
	if accounts == nil {
		accounts = []string{"*"}
	}
	for _, account := range accounts {
		text := strings.Join(g.Scopes, ",") + "@" + account
		if g.Prefix != "" {
			text += "/" + g.Prefix
		}
		texts = append(texts, text)
	}
	return texts
}
