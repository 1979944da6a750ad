package meta

import (
	"encoding/json"
	"time"

	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// keepingRow is a row in the table keeping as it is scanned.
type keepingRow struct {
	metastore.AccountKeeping
	rule            rule
	progress, locks []byte // in JSON, or nil
}

// lockSetting is a setting of locks. Times are in nanoseconds.
type lockSetting struct {
	Mode metastore.LockMode `json:"mode,omitempty"`
	For  time.Duration      `json:"for,omitempty"`
	Most time.Duration      `json:"most,omitempty"`
}

func lockSettingOf(k *metastore.Keeping) lockSetting {
	return lockSetting{k.LockMode, k.LockFor, k.LockMost}
}

const keepingColumns = `account, changed, progress, locks, handled, ` + ruleOf

func (r *keepingRow) fields() engine.Args {
	return engine.Args{&r.Account, (*engine.Instant)(&r.Changed), &r.progress, &r.locks, (*engine.Integer)(&r.Handled), &r.rule}
}

func (r *keepingRow) keeping() (metastore.AccountKeeping, error) {
	k := r.AccountKeeping
	k.State, k.For, k.Most, k.Locks = r.rule.state(), r.rule.period(), r.rule.most(), r.rule.locks()
	k.Pending = r.progress != nil
	if !k.Locks {
		return k, nil
	}
	var l lockSetting
	err := json.Unmarshal(r.locks, &l)
	k.LockMode, k.LockFor, k.LockMost = l.Mode, l.For, l.Most
	return k, err
}

func (t tx) keeping(account any) (metastore.Keeping, error) {
	var r keepingRow
	if _, err := t.Row(`SELECT `+keepingColumns+` FROM keeping WHERE account = $1`, engine.Args{account}, r.fields()...); err != nil {
		return metastore.Keeping{}, err
	}
	k, err := r.keeping()
	return k.Keeping, err
}
