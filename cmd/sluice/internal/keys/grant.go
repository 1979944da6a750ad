package keys

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/access"
	"sluice/access/keys"
	"sluice/blob"
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

// change returns what the flags change about a key's grants.
func (f *grantFlags) change() (c access.KeyChange, err error) {
	var errs []error
	if f.Grants != nil {
		if f.parts() {
			errs = append(errs, errors.New("--grant: set it without --scopes, --accounts, --all-accounts and --prefix"))
		}
		c.Grants, err = parseGrants(f.Grants)
		return c, errors.Join(append(errs, err)...)
	}
	if f.Scopes != nil {
		if c.Scopes, err = access.ParseScopes(f.Scopes); err != nil {
			errs = append(errs, fmt.Errorf("--scopes: %w", err))
		}
	}
	if f.AllAccounts && len(f.Accounts) > 0 {
		errs = append(errs, errOneOfTwo)
	}
	if f.AllAccounts {
		c.Accounts = new([]string)
	}
	if len(f.Accounts) > 0 {
		accounts, err := parseAccounts(f.Accounts)
		errs = append(errs, err)
		c.Accounts = &accounts
	}
	c.Prefix = f.Prefix
	return c, errors.Join(errs...)
}

var errOneOfTwo = errors.New("--accounts or --all-accounts: exactly one of the two is required")

// grants returns a new key's grants.
func (f *grantFlags) grants() ([]keys.Grant, error) {
	c, err := f.change()
	errs := []error{err}
	if f.Grants == nil && f.Scopes == nil {
		_, err := access.ParseScopes(nil)
		errs = append(errs, fmt.Errorf("--scopes: %w", err))
	}
	if f.Grants == nil && c.Accounts == nil {
		errs = append(errs, errOneOfTwo)
	}
	if err := errors.Join(errs...); err != nil || f.Grants != nil {
		return c.Grants, err
	}
	g := keys.Grant{Accounts: *c.Accounts}
	for _, s := range c.Scopes {
		g.Scopes = append(g.Scopes, string(s))
	}
	if f.Prefix != nil {
		g.Prefix = *f.Prefix
	}
	checked, err := access.CheckGrants([]keys.Grant{g})
	if err != nil {
		return nil, fmt.Errorf("--prefix: %w", err)
	}
	return checked, nil
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
func grantTexts(g keys.Grant) (texts []string) {
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
