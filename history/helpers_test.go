package history

import (
	"context"
	"fmt"

	"sluice/access/keys"
	"sluice/database"
)

func testKey(id string) keys.Key { return keys.Key{ID: id, Group: "group"} }

// recordsInMemory is a database.History in memory, for the clock of synctest, which a database's
// file does not follow.
type recordsInMemory struct {
	none
	list    []database.Record
	outside database.Record
}

// none lacks the methods that the test does not call.
type none struct{ Database }

func (m *recordsInMemory) History(context.Context) (database.HistoryState, error) {
	h := database.HistoryState{Generation: 1, Outside: m.outside}
	if len(m.list) > 0 {
		h.Newest = m.list[len(m.list)-1]
	}
	return h, nil
}

func (m *recordsInMemory) AddRecord(_ context.Context, _ int64, after database.Record, _ string) (database.Record, error) {
	m.list = append(m.list, database.Record{Number: after.Number + 1, Owner: "0123456789abcdef", Nonce: fmt.Sprintf("%016d", len(m.list))})
	return m.list[len(m.list)-1], nil
}

func (m *recordsInMemory) RecordOutside(_ context.Context, _ int64, outside database.Record) error {
	m.outside = outside
	return nil
}

func (m *recordsInMemory) LackedRecords(context.Context, []database.Record) ([]database.Record, error) {
	return nil, nil
}

func (m *recordsInMemory) LostCommits() error { return nil }
