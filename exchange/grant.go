package exchange

import "sluice/access"

// grant is a permission that a caller's key must have.
type grant struct {
	scope   access.Scope // "": nothing that needs a key
	account string
	name    string // a blob's, or the prefix of a list
}

// allowed returns nil if the caller's key has the permission.
func (g grant) allowed(caller *access.Caller) error {
	if g.scope == "" {
		return nil
	}
	return caller.Allows(g.scope, g.account, g.name)
}
