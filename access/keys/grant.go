package keys

// Grant allows the operations of its scopes on the blobs of its accounts with names that begin with
// its prefix. Its strings are stored as bytes; the store does not interpret them.
type Grant struct {
	Scopes   []string `json:"scopes"`
	Accounts []string `json:"accounts,omitzero"` // nil: all; empty: none
	Prefix   string   `json:"prefix,omitempty"`  // of canonical names; "": all names
}
