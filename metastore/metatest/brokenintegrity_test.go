package metatest_test

import (
	"context"
	"testing"

	"sluice/database/dbtest"
	"sluice/metastore"
)

// TestBrokenIntegrityIsCaught breaks a store's records of damage and scrubs.
func TestBrokenIntegrityIsCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "heals without garbage", Schema: dbtest.On(`AFTER INSERT ON garbage WHEN NEW.owner IS NULL AND NEW.charge = 0`, `DELETE FROM extents WHERE content = NEW.content; DELETE FROM garbage WHERE content = NEW.content`), Caught: []string{"integrity/heal"}},
		{Name: "keeps the record of healed damage", Schema: dbtest.On(`AFTER DELETE ON damaged`, `INSERT INTO damaged SELECT OLD.content, OLD.part, OLD.off, OLD.size, OLD.object, OLD.bad, OLD.bytes, OLD.since, OLD.reason`), Caught: []string{"integrity/heal", "integrity/damage"}},
		{Name: "records damage of any object", Break: dbtest.Broken[recordsAll], Caught: []string{"integrity/damage-ends", "integrity/heal"}},
		{Name: "forgets damage of any object", Break: dbtest.Broken[forgetsAll], Caught: []string{"integrity/damage"}},
		{Name: "heals whatever the object is", Break: dbtest.Broken[healsAny], Caught: []string{"integrity/heal"}},
		{Name: "heals any body", Break: dbtest.Broken[healsAnyBody], Caught: []string{"integrity/heal-body"}},
		{Name: "keeps the damaged body", Schema: dbtest.On(`AFTER UPDATE ON bodies`, `UPDATE bodies SET body = OLD.body WHERE content = OLD.content AND part = OLD.part AND off = OLD.off`), Caught: []string{"integrity/heal-body"}},
		{Name: "opens with the damaged object", Break: func(c dbtest.Correct) dbtest.Handle { return &keepsRows{Correct: c} }, Caught: []string{"integrity/heal"}},
		{Name: "lists objects of live contents alone", Break: dbtest.Broken[listsLive], Caught: []string{"integrity/lists"}},
		{Name: "saves any scrub", Break: dbtest.Broken[savesAny], Caught: []string{"integrity/scrub"}},
	})
}

type recordsAll struct{ dbtest.Correct }

func (s recordsAll) RecordDamage(ctx context.Context, d metastore.Damage) (bool, error) {
	_, err := s.Correct.RecordDamage(ctx, d)
	return true, err
}

type forgetsAll struct{ dbtest.Correct }

func (s forgetsAll) ForgetDamage(ctx context.Context, d metastore.Damage) error {
	extents, err := s.Extents(ctx, d.Content, d.Position, 1)
	if err == nil && len(extents) > 0 {
		d.Object = extents[0].Object
	}
	return s.Correct.ForgetDamage(ctx, d)
}

type healsAny struct{ dbtest.Correct }

func (s healsAny) HealExtent(ctx context.Context, d metastore.Damage, fresh metastore.Extent, retired metastore.ContentID) error {
	extents, err := s.Extents(ctx, d.Content, d.Position, 1)
	if err == nil && len(extents) > 0 {
		d.Object = extents[0].Object
	}
	return s.Correct.HealExtent(ctx, d, fresh, retired)
}

type healsAnyBody struct{ dbtest.Correct }

func (s healsAnyBody) HealBody(ctx context.Context, d metastore.Damage, damaged, body []byte) error {
	extents, err := s.Extents(ctx, d.Content, d.Position, 1)
	if err == nil && len(extents) > 0 {
		damaged = extents[0].Body
	}
	return s.Correct.HealBody(ctx, d, damaged, body)
}

type listsLive struct{ dbtest.Correct }

func (s listsLive) Objects(ctx context.Context, after string, limit int) ([]metastore.StoredExtent, error) {
	list, err := s.Correct.Objects(ctx, after, limit)
	for i := range list {
		list[i].Garbage = false
	}
	return list, err
}

type savesAny struct{ dbtest.Correct }

func (s savesAny) SaveScrub(ctx context.Context, p metastore.Scrub) (int64, error) {
	now, err := s.Scrub(ctx)
	if err != nil {
		return 0, err
	}
	p.Revision = now.Revision
	return s.Correct.SaveScrub(ctx, p)
}
