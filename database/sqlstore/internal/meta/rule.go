package meta

import (
	"strings"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// rule is an account's row in the table keeping in one number, ruleOf; 0: there is none.
type rule int64

const ruleOf = `period * 512 + most * 4 + state`

// Scan implements sql.Scanner.
func (r *rule) Scan(src any) error {
	*r = 0
	if src == nil {
		return nil
	}
	return (*engine.Integer)(r).Scan(src)
}

// withLocks is the state in the table keeping of an account that is metastore.KeepOn and has locks.
const withLocks = 3

func (r rule) locks() bool { return r&3 == withLocks }

func (r rule) state() metastore.KeepState {
	if r.locks() {
		return metastore.KeepOn
	}
	return metastore.KeepState(r & 3)
}

func (r rule) most() int { return int(r >> 2 & 127) }

func (r rule) period() time.Duration { return time.Duration(r>>9) * time.Microsecond }

// keeps reports whether a blob under the rule is kept when it ceases to be current.
func (r rule) keeps(b *metastore.Blob) bool {
	return r.state() == metastore.KeepOn || r.state() == metastore.KeepOff && b.Versioned
}

// until returns when a version goes that ceased to be current at a time.
func (r rule) until(since time.Time) time.Time {
	if r.period() == 0 {
		return time.Time{}
	}
	return since.Add(r.period())
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
