package dbtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/whole"
)

var historyChecks = []Check{
	NewCheck("history/records", historyRecords),
	NewCheck("history/retained", historyRetained),
	NewCheck("history/racing", historyRacing),
	NewCheck("history/setback", historySetback),
	NewCheck("history/lost", historyLost),
}

// record adds a record after another one, of the same owner, and records that it is outside.
func (p *Probe) record(after database.Record) database.Record {
	r := Value(p.Store.AddRecord(p.Ctx, 1, after, after.Owner))
	p.Must(len(r.Nonce) == database.OwnerLen && len(r.Owner) == database.OwnerLen, "the record is %v", r)
	p.OK(p.Store.RecordOutside(p.Ctx, 1, r), "a record outside")
	return r
}

func historyRecords(p *Probe) {
	p.Equal(Value(p.Store.History(p.Ctx)), database.HistoryState{Generation: 1}, "a new database's history")
	one := p.record(database.Record{})
	two := p.record(one)
	three := Value(p.Store.AddRecord(p.Ctx, 1, two, ""))
	p.OK(p.Store.RecordOutside(p.Ctx, 1, database.Record{Number: 3, Owner: three.Owner, Nonce: two.Nonce}), "a record outside that there is not")
	p.OK(p.Store.RecordOutside(p.Ctx, 2, three), "a record outside in another generation")
	p.Must(one.Number == 1 && two.Number == 2 && three.Number == 3, "the records are %v, %v and %v", one, two, three)
	p.Must(one.Nonce != two.Nonce && one.Owner == two.Owner && two.Owner != three.Owner, "the records are %v, %v and %v", one, two, three)
	p.Is(Error(p.Store.AddRecord(p.Ctx, 1, three, "")), database.ErrNotFound, "a record after one that is not outside")
	p.Is(Error(p.Store.AddRecord(p.Ctx, 1, two, "")), database.ErrNotFound, "a record after one that was followed")
	p.Is(Error(p.Store.AddRecord(p.Ctx, 2, three, "")), database.ErrNotFound, "a record in another generation")
	p.Reopen()
	p.Equal(Value(p.Store.History(p.Ctx)), database.HistoryState{Generation: 1, Newest: three, Outside: two}, "the history")
	other, owner, later := two, two, database.Record{Number: 4, Owner: one.Owner, Nonce: one.Nonce}
	other.Nonce, owner.Owner = "0123456789abcdef", "0123456789abcdef"
	lacked := Value(p.Store.LackedRecords(p.Ctx, []database.Record{one, other, owner, three, later}))
	p.Must(slices.Equal(lacked, []database.Record{other, owner, later}), "the database lacks %v", lacked)
}

// historyRetained checks that the oldest records are forgotten, and that they do not count as
// lacked.
func historyRetained(p *Probe) {
	first := p.record(database.Record{})
	r := first
	for range database.RecordsRetained {
		r = p.record(r)
	}
	second := database.Record{Number: 2, Owner: r.Owner, Nonce: "0123456789abcdef"}
	lacked := Value(p.Store.LackedRecords(p.Ctx, []database.Record{first, second}))
	p.Must(slices.Equal(lacked, []database.Record{second}), "the database lacks %v", lacked)
}

// historyRacing checks that one of concurrent calls adds a record.
func historyRacing(p *Probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for after := (database.Record{}); after.Number < 4; {
		records := make([]database.Record, 8)
		for i, err := range Race(len(records), func(i int) (err error) {
			records[i], err = handles[i%2].AddRecord(p.Ctx, 1, after, "")
			return err
		}) {
			p.Must(err == nil || errors.Is(err, database.ErrNotFound), "a record: %v", err)
			if err != nil {
				records[i] = database.Record{}
			}
		}
		records = slices.DeleteFunc(records, func(r database.Record) bool { return r.Number == 0 })
		p.Must(len(records) == 1 && records[0].Number == after.Number+1, "the records are %v", records)
		after = records[0]
		p.OK(p.Store.RecordOutside(p.Ctx, 1, after), "a record outside")
		p.Must(len(Value(p.Store.LackedRecords(p.Ctx, records))) == 0, "the record is lacked")
	}
}

func historySetback(p *Probe) {
	r := p.record(p.record(database.Record{}))
	p.OK(p.Store.RecordSetback(p.Ctx, 2, "in another generation"), "a setback in another generation")
	p.Equal(Value(p.Store.History(p.Ctx)), database.HistoryState{Generation: 1, Newest: r, Outside: r}, "the history")
	p.OK(p.Store.RecordSetback(p.Ctx, 1, "how"), "a setback")
	p.OK(p.Store.RecordSetback(p.Ctx, 1, "how another node has seen it"), "another node's setback")
	p.OK(p.Store.RecordSetback(p.Ctx, 1, "how"), "the first setback again")
	p.Reopen()
	p.Equal(Value(p.Store.History(p.Ctx)), database.HistoryState{Generation: 1, SetBack: "how\nhow another node has seen it", Newest: r, Outside: r}, "the history after a setback")
	for i := range database.MaxSetbackLines {
		p.OK(p.Store.RecordSetback(p.Ctx, 1, fmt.Sprint(i)), "more setbacks")
	}
	if lines := strings.Split(Value(p.Store.History(p.Ctx)).SetBack, "\n"); len(lines) != database.MaxSetbackLines {
		p.Fail("%d lines are recorded", len(lines))
	}
	p.Is(Error(p.Store.AddRecord(p.Ctx, 1, r, "")), database.ErrNotFound, "a record after a setback")
	p.Is(p.Store.BeginGeneration(p.Ctx, 2, 3, 9, database.KeptObjects{}, ""), database.ErrNotFound, "a generation after one that there is not")
	kept := database.KeptObjects{MadeBefore: p.Clock.Now(), Until: p.Clock.Now().Add(time.Hour)}
	p.OK(p.Store.BeginGeneration(p.Ctx, 1, 3, 9, kept, ""), "a generation")
	p.Is(p.Store.BeginGeneration(p.Ctx, 1, 3, 10, kept, ""), database.ErrNotFound, "the same generation again")
	now := Value(p.Store.History(p.Ctx))
	p.Must(now.Newest.Number == 9 && now.Newest.Owner != r.Owner, "the first record of the next generation is %v", now.Newest)
	p.Equal(now, database.HistoryState{Generation: 3, Newest: now.Newest, Kept: kept}, "the history of the next generation")
	p.OK(p.Store.ReleaseObjects(p.Ctx), "a release")
	p.Equal(Value(p.Store.History(p.Ctx)), database.HistoryState{Generation: 3, Newest: now.Newest}, "the history after a release")
	p.Is(p.Store.BeginGeneration(p.Ctx, 3, 3, 10, kept, ""), database.ErrNotFound, "the same generation again")
	p.OK(p.Store.BeginGeneration(p.Ctx, 3, 4, 0, kept, ""), "a generation without a record")
	p.Equal(Value(p.Store.History(p.Ctx)), database.HistoryState{Generation: 4, Newest: now.Newest, Kept: kept}, "the history after a generation without a record")
}

// historyLost checks the errors for ids that are not in the database.
func historyLost(p *Probe) {
	lost := map[string]func(id string) error{
		"session": func(id string) error { return Error(p.Store.Session(p.Ctx, id)) },
		"use":     func(id string) error { return Error(p.Store.UseSession(p.Ctx, id, 1, nil)) },
		"channel": func(id string) error { return Error(p.Store.Channel(p.Ctx, id)) },
		"deposit": func(id string) error { return Error(p.Store.AddDeposit(p.Ctx, id, 1, nil)) },
		"upload":  func(id string) error { return Error(p.Store.Upload(p.Ctx, id)) },
		"abort":   func(id string) error { return Error(p.Store.AbortUpload(p.Ctx, id)) },
	}
	first, later := database.NewID(1), database.NewID(2)
	for what, look := range lost {
		err := look(first)
		p.Is(err, database.ErrNotFound, "%s in the first generation", what)
		p.Must(!errors.Is(err, database.ErrLost), "%s in the first generation: %v", what, err)
	}
	p.OK(p.Store.BeginGeneration(p.Ctx, 1, 2, 0, database.KeptObjects{}, ""), "a generation")
	for what, look := range lost {
		err := look(later)
		p.Is(err, database.ErrNotFound, "%s in the second generation", what)
		p.Must(!errors.Is(err, database.ErrLost), "%s in the second generation: %v", what, err)
		p.Is(look(first), database.ErrLost, "%s of the first generation", what)
	}
}
