package history

import (
	"context"
	"fmt"

	"sluice/access/keys"
	"sluice/database"
)

func testKey(id string) keys.Key { return keys.Key{ID: id, Group: "group"} }

// marksInMemory is a database.Past in memory, for the clock of synctest, which a database's file
// does not follow.
type marksInMemory struct {
	none
	list    []database.Mark
	outside database.Mark
}

// none lacks the methods that the test does not call.
type none struct{ Store }

func (m *marksInMemory) Past(context.Context) (database.PastState, error) {
	p := database.PastState{Generation: 1, Outside: m.outside}
	if len(m.list) > 0 {
		p.Newest = m.list[len(m.list)-1]
	}
	return p, nil
}

func (m *marksInMemory) AddMark(context.Context, int64) (database.Mark, error) {
	m.list = append(m.list, database.Mark{Sequence: int64(len(m.list) + 1), Nonce: fmt.Sprintf("%016d", len(m.list))})
	return m.list[len(m.list)-1], nil
}

func (m *marksInMemory) MarkOutside(_ context.Context, _ int64, outside database.Mark) error {
	m.outside = outside
	return nil
}

func (m *marksInMemory) LackedMarks(context.Context, []database.Mark) ([]database.Mark, error) {
	return nil, nil
}

func (m *marksInMemory) LostCommits() error { return nil }
