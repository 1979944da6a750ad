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

var pastChecks = []Check{
	NewCheck("past/marks", pastMarks),
	NewCheck("past/retained", pastRetained),
	NewCheck("past/racing-marks", pastRacingMarks),
	NewCheck("past/setback", pastSetback),
	NewCheck("past/lost", pastLost),
}

func (p *Probe) mark() database.Mark {
	m := Value(p.Store.AddMark(p.Ctx, 1))
	p.Must(len(m.Nonce) == database.MarkNonceLen, "the nonce is %q", m.Nonce)
	return m
}

func pastMarks(p *Probe) {
	p.Equal(Value(p.Store.Past(p.Ctx)), database.PastState{Generation: 1}, "a new database's past")
	one, two, three := p.mark(), p.mark(), p.mark()
	p.OK(p.Store.MarkOutside(p.Ctx, 1, two), "a mark outside")
	p.OK(p.Store.MarkOutside(p.Ctx, 1, database.Mark{Sequence: 3, Nonce: two.Nonce}), "a mark outside that there is not")
	p.OK(p.Store.MarkOutside(p.Ctx, 2, three), "a mark outside in another generation")
	p.Must(one.Sequence == 1 && two.Sequence == 2 && three.Sequence == 3, "the marks are %v, %v and %v", one, two, three)
	p.Must(one.Nonce != two.Nonce, "two marks have the nonce %s", one.Nonce)
	p.Reopen()
	p.Equal(Value(p.Store.Past(p.Ctx)), database.PastState{Generation: 1, Newest: three, Outside: two}, "the past")
	other, later := database.Mark{Sequence: 2, Nonce: "0123456789abcdef"}, database.Mark{Sequence: 4, Nonce: one.Nonce}
	lacked := Value(p.Store.LackedMarks(p.Ctx, []database.Mark{one, other, three, later}))
	p.Must(slices.Equal(lacked, []database.Mark{other, later}), "the database lacks %v", lacked)
}

// pastRetained checks that the oldest marks are forgotten, and that they do not count as lacked.
func pastRetained(p *Probe) {
	first := p.mark()
	for range database.MarksRetained {
		p.mark()
	}
	second := database.Mark{Sequence: 2, Nonce: "0123456789abcdef"}
	lacked := Value(p.Store.LackedMarks(p.Ctx, []database.Mark{first, second}))
	p.Must(slices.Equal(lacked, []database.Mark{second}), "the database lacks %v", lacked)
}

// pastRacingMarks checks that concurrent calls add different marks.
func pastRacingMarks(p *Probe) {
	handles := []whole.Database{p.Store, p.Open()}
	marks := make([]database.Mark, 8)
	for _, err := range Race(len(marks), func(i int) (err error) {
		marks[i], err = handles[i%2].AddMark(p.Ctx, 1)
		return err
	}) {
		p.OK(err, "a mark")
	}
	slices.SortFunc(marks, func(a, b database.Mark) int { return int(a.Sequence - b.Sequence) })
	for i, m := range marks {
		p.Must(m.Sequence == int64(i)+1, "the marks are %v", marks)
	}
	p.Must(len(Value(p.Store.LackedMarks(p.Ctx, marks))) == 0, "marks are lacked")
}

func pastSetback(p *Probe) {
	p.mark()
	outside, m := p.mark(), p.mark()
	p.OK(p.Store.MarkOutside(p.Ctx, 1, outside), "a mark outside")
	p.OK(p.Store.RecordSetback(p.Ctx, 2, "in another generation"), "a setback in another generation")
	p.Equal(Value(p.Store.Past(p.Ctx)), database.PastState{Generation: 1, Newest: m, Outside: outside}, "the past")
	p.OK(p.Store.RecordSetback(p.Ctx, 1, "how"), "a setback")
	p.OK(p.Store.RecordSetback(p.Ctx, 1, "how another node has seen it"), "another node's setback")
	p.OK(p.Store.RecordSetback(p.Ctx, 1, "how"), "the first setback again")
	p.Reopen()
	p.Equal(Value(p.Store.Past(p.Ctx)), database.PastState{Generation: 1, SetBack: "how\nhow another node has seen it", Newest: m, Outside: outside}, "the past after a setback")
	for i := range database.MaxSetbackLines {
		p.OK(p.Store.RecordSetback(p.Ctx, 1, fmt.Sprint(i)), "more setbacks")
	}
	if lines := strings.Split(Value(p.Store.Past(p.Ctx)).SetBack, "\n"); len(lines) != database.MaxSetbackLines {
		p.Fail("%d lines are recorded", len(lines))
	}
	p.Is(Error(p.Store.AddMark(p.Ctx, 1)), database.ErrNotFound, "a mark after a setback")
	p.Is(p.Store.BeginGeneration(p.Ctx, 2, 3, database.KeptObjects{}), database.ErrNotFound, "a generation after one that there is not")
	kept := database.KeptObjects{MadeBefore: p.Clock.Now(), Until: p.Clock.Now().Add(time.Hour)}
	p.OK(p.Store.BeginGeneration(p.Ctx, 1, 3, kept), "a generation")
	p.Is(p.Store.BeginGeneration(p.Ctx, 1, 3, kept), database.ErrNotFound, "the same generation again")
	p.Equal(Value(p.Store.Past(p.Ctx)), database.PastState{Generation: 3, Newest: m, Kept: kept}, "the past of the next generation")
	p.Is(Error(p.Store.AddMark(p.Ctx, 1)), database.ErrNotFound, "a mark in the first generation")
	second := Value(p.Store.AddMark(p.Ctx, 3))
	p.Must(second.Sequence == 4, "the first mark of the next generation is %v", second)
	p.OK(p.Store.ReleaseObjects(p.Ctx), "a release")
	p.Equal(Value(p.Store.Past(p.Ctx)), database.PastState{Generation: 3, Newest: second}, "the past after a release")
	p.Is(p.Store.BeginGeneration(p.Ctx, 3, 3, kept), database.ErrNotFound, "the same generation again")
}

// pastLost checks how lookups report ids that are not in the database.
func pastLost(p *Probe) {
	lost := map[string]func(id string) error{
		"session": func(id string) error { return Error(p.Store.Session(p.Ctx, id)) },
		"use":     func(id string) error { return Error(p.Store.UseSession(p.Ctx, id, 1, nil)) },
		"channel": func(id string) error { return Error(p.Store.Channel(p.Ctx, id)) },
		"deposit": func(id string) error { return Error(p.Store.AddDeposit(p.Ctx, id, 1, nil)) },
		"upload":  func(id string) error { return Error(p.Store.Upload(p.Ctx, id)) },
		"abort":   func(id string) error { return Error(p.Store.AbortUpload(p.Ctx, id)) },
	}
	first, later := database.NewID(1), database.NewID(2)
	for name, look := range lost {
		err := look(first)
		p.Is(err, database.ErrNotFound, "%s in the first generation", name)
		p.Must(!errors.Is(err, database.ErrLost), "%s in the first generation: %v", name, err)
	}
	p.OK(p.Store.BeginGeneration(p.Ctx, 1, 2, database.KeptObjects{}), "a generation")
	for name, look := range lost {
		err := look(later)
		p.Is(err, database.ErrNotFound, "%s in the second generation", name)
		p.Must(!errors.Is(err, database.ErrLost), "%s in the second generation: %v", name, err)
		p.Is(look(first), database.ErrLost, "%s of the first generation", name)
	}
}
