package engine

// BeginChange returns memory for EndChange. The caller appends a change's encoding to it.
func (t *Tx) BeginChange() []byte { return t.changes.Packed }

// EndChange adds a change to those that the transaction's commit stores.
func (t *Tx) EndChange(packed []byte) {
	r := t.changes
	r.Packed = packed[:len(r.Packed)]
	r.Add(packed[len(r.Packed):])
	r.At = max(r.At, t.Now.UnixMicro())
}

// TakeChanges returns the transaction's changes, and where the last one begins. The caller stores
// them instead.
func (t *Tx) TakeChanges() (packed []byte, newest int) {
	packed, newest = t.changes.Packed, t.changes.newest
	*t.changes = ChangeRun{}
	return packed, newest
}

// queueChanges stores the transaction's changes in the table changes_queue, without a round trip of
// its own. Their id is drawn while the transaction holds the changed names' locks.
func (t *Tx) queueChanges() error {
	if t.changes.Count == 0 {
		return nil
	}
	return t.Change(`INSERT INTO changes_queue (packed) VALUES ($1)`, t.changes.Packed)
}
