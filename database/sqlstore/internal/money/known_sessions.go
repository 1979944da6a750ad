package money

import (
	"sluice/ledger"
)

// knownSessions has the sessions that were used last, as a store's transactions left them, so that
// the next use needs not read the session. It is a guess: the transaction may have been rolled
// back, and other statements and processes change sessions, too. The use's statement compares it
// with the row (see takeIfUnchanged). Transactions that run one after another may use it; nil knows
// nothing.
type knownSessions struct {
	recent, earlier map[string]ledger.Session
}

// maxKnownSessions is the greatest number of sessions in each map. When recent is full, the
// sessions in earlier are forgotten.
const maxKnownSessions = 8192

func (k *knownSessions) get(id string) (ledger.Session, bool) {
	if k == nil {
		return ledger.Session{}, false
	}
	s, ok := k.recent[id]
	if !ok {
		s, ok = k.earlier[id]
	}
	return s, ok
}

func (k *knownSessions) put(s ledger.Session) {
	if k == nil {
		return
	}
	if _, ok := k.recent[s.ID]; !ok && len(k.recent) == maxKnownSessions || k.recent == nil {
		k.recent, k.earlier = map[string]ledger.Session{}, k.recent
	}
	k.recent[s.ID] = s
}
