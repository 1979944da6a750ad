package admin

import (
	"context"
	"encoding/json"
	"fmt"

	"sluice/access"
	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/blob"
	"sluice/metastore"
)

// ChangingCORS calls change, possibly several times, with a function that returns the act
// "cors.set" with which a bucket's record changes its CORS rules, or nil if they stay as they are.
// rules returns these from the record's metadata, in JSON, or "". It returns access.ErrScope or
// ErrName of package access if the key lacks access.ScopeWrite for the whole account.
func (s *Service) ChangingCORS(ctx context.Context, by By, account string, rules func(metadata string) string, change func(blob.ActOf) error) error {
	return s.decideWith(ctx, by, access.ScopeWrite, func(a actor) error {
		if a.key != nil && !covers(a.key.Grants, keys.Grant{Accounts: []string{account}}, hasScope(access.ScopeWrite)) {
			return fmt.Errorf("%w: it may not change a bucket's rules", access.ErrName)
		}
		return change(func(source metastore.Blob, copied *metastore.Blob) (*actions.Act, error) {
			before, after := rules(source.Metadata), rules(copied.Metadata)
			if before == after {
				return nil, nil
			}
			return a.act("cors.set", account, []string{account}, rawJSON(before), rawJSON(after))
		})
	})
}

// rawJSON returns a text in JSON for a record, or nil for "".
func rawJSON(text string) any {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}
