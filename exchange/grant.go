package exchange

import "sluice/access"

// grant is what a caller may do because of their key.
type grant struct {
	scope   access.Scope // "": nothing that needs a key
	account string
}

// allowed returns nil if the key has what was granted.
func (g grant) allowed(caller *access.Caller) error {
	if g.scope == "" {
		return nil
	}
	return caller.Allows(g.scope, g.account)
}
