package meta

import (
	"strings"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// rule is an account's row in the table keeping, zero if there is none.
type rule struct{ state, period, most engine.Integer }

func (r rule) is(state metastore.KeepState) bool { return r.state == engine.Integer(state) }

// keeps reports whether a blob under the rule is kept when it ceases to be current.
func (r rule) keeps(b *metastore.Blob) bool {
	return r.is(metastore.KeepOn) || r.is(metastore.KeepOff) && b.Versioned
}

// until returns when a version goes that ceased to be current at a time.
func (r rule) until(since time.Time) time.Time {
	if r.period == 0 {
		return time.Time{}
	}
	return since.Add(time.Duration(r.period) * time.Microsecond)
}

// ruledBy returns the account with the rule for a blob: own, if that is the blob's account. No
// account is named so if there is none.
func ruledBy(account, name string, own any) any {
	if strings.HasPrefix(name, "\x00") {
		return []byte("~")
	}
	if of, ok := metastore.AccountOfMarkers(account); ok {
		return []byte(of)
	}
	return own // no account that is hidden has a rule
}
