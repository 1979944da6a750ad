package metatest_test

import (
	"context"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/metastore"
)

// Events with counted references.
const (
	firstShared = `AFTER INSERT ON shares`
	countedUp   = `AFTER UPDATE OF refs ON shares WHEN NEW.refs > OLD.refs`
	countedDown = `AFTER UPDATE OF refs ON shares WHEN NEW.refs < OLD.refs`
)

// TestBrokenSharesAreCaught breaks how a store counts the blobs that share a content.
func TestBrokenSharesAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "shares without counting", Schema: dbtest.On(firstShared, `DELETE FROM shares WHERE content = NEW.content`), Caught: []string{"copies/last-blob", "copies/race-delete", "copies/race-all", "model/history"}},
		{Name: "does not count a second copy", Schema: dbtest.On(countedUp, `UPDATE shares SET refs = OLD.refs WHERE content = NEW.content`), Caught: []string{"copies/last-blob", "copies/race-delete", "model/history"}},
		{Name: "counts a second copy twice", Schema: dbtest.On(countedUp, `UPDATE shares SET refs = refs + 1 WHERE content = NEW.content`), Caught: []string{"copies/last-blob", "model/history"}},
		{Name: "counts the source twice", Schema: dbtest.On(firstShared, `UPDATE shares SET refs = 3 WHERE content = NEW.content`), Caught: []string{"copies/over", "copies/delete", "moves/usage"}},
		{Name: "counts down twice", Schema: dbtest.On(countedDown, `UPDATE shares SET refs = MAX(1, refs - 1) WHERE content = NEW.content`), Caught: []string{"copies/last-blob", "model/history"}},
		{Name: "does not count down", Schema: dbtest.On(countedDown, `UPDATE shares SET refs = OLD.refs WHERE content = NEW.content`), Caught: []string{"copies/over", "moves/over", "model/history"}},
		{Name: "frees with the first blob", Schema: dbtest.On(countedDown, `INSERT OR IGNORE INTO garbage (content, since, charge) VALUES (NEW.content, 0, 0)`), Caught: []string{"copies/contents", "copies/last-blob", "moves/over", "model/history"}},
		{Name: "a replacement keeps its reference", Schema: dbtest.On(replaced+` WHEN OLD.shared <> 0 AND NEW.content <> OLD.content`, `UPDATE shares SET refs = refs + 1 WHERE content = OLD.content`), Caught: []string{"copies/over", "copies/last-blob", "model/history"}},
		{Name: "a purge ends shares of other blobs", BeforePurge: `UPDATE shares SET refs = 1 WHERE content IN (SELECT content FROM blobs WHERE expires IS NOT NULL)`, Caught: []string{"copies/expiry", "copies/last-blob", "copies/race-purge"}},
		{Name: "a purge forgets shares", BeforePurge: `UPDATE blobs SET shared = 0 WHERE expires IS NOT NULL`, Caught: []string{"copies/expiry", "copies/last-blob"}},
		{Name: "a copy is free", Schema: dbtest.On(`AFTER INSERT ON blobs WHEN NEW.shared <> 0`, charge("NEW.owner", "bytes", "-NEW.size")), Caught: []string{"moves/usage", "model/history", "copies/race-move"}},
		{Name: "garbage of a share is free", Schema: dbtest.On(`AFTER DELETE ON shares`, charge("(SELECT b.owner FROM blobs b WHERE b.content = OLD.content)", "retained", "-1024")), Caught: []string{"moves/usage", "model/history"}},
	})
}

// TestBrokenCopiesAreCaught breaks how a store's copies, moves and deletes answer.
func TestBrokenCopiesAreCaught(t *testing.T) {
	copies := func(change func(c *metastore.Copy, source metastore.Blob)) func(dbtest.Correct) dbtest.Handle {
		return func(c dbtest.Correct) dbtest.Handle { return changesCopies{c, change} }
	}
	moves := func(change func(m *metastore.Move, source metastore.Blob)) func(dbtest.Correct) dbtest.Handle {
		return func(c dbtest.Correct) dbtest.Handle { return changesMoves{c, change} }
	}
	catch(t, []dbtest.Mutant{
		{Name: "never shares", Break: dbtest.Broken[copiesObjects], Caught: []string{"copies/contents", "model/history"}},
		{Name: "a copy ignores the source's precondition", Break: copies(func(c *metastore.Copy, _ metastore.Blob) { c.Source = nil }), Caught: []string{"copies/preconditions"}},
		{Name: "a copy ignores the destination's precondition", Break: copies(func(c *metastore.Copy, _ metastore.Blob) { c.Precondition = nil }), Caught: []string{"copies/preconditions", "copies/race-one-name", "model/history"}},
		{Name: "a copy swaps the preconditions", Break: copies(func(c *metastore.Copy, _ metastore.Blob) { c.Source, c.Precondition = c.Precondition, c.Source }), Caught: []string{"copies/preconditions", "model/history"}},
		{Name: "a copy loses the metadata", Break: copies(func(c *metastore.Copy, _ metastore.Blob) {
			if !c.Restated {
				c.Restated, c.To.ContentType, c.To.Metadata = true, "", ""
			}
		}), Caught: []string{"copies/copy", "copies/onto-itself", "model/history"}},
		{Name: "a copy ignores restated members", Break: copies(func(c *metastore.Copy, _ metastore.Blob) { c.Restated = false }), Caught: []string{"copies/copy", "copies/onto-itself", "model/history"}},
		{Name: "a copy expires with its source", Break: copies(func(c *metastore.Copy, source metastore.Blob) { c.To.Expires = source.Expires }), Caught: []string{"copies/copy", "copies/expiry", "model/history"}},
		{Name: "a copy counts to the source's owner", Break: copies(func(c *metastore.Copy, source metastore.Blob) { c.To.Owner = source.Owner }), Caught: []string{"copies/copy", "moves/usage", "model/history"}},
		{Name: "copies an expired blob", Break: dbtest.Broken[copiesExpired], Caught: []string{"copies/errors", "model/history"}},
		{Name: "a move ignores the source's precondition", Break: moves(func(m *metastore.Move, _ metastore.Blob) { m.Source = nil }), Caught: []string{"copies/preconditions", "moves/once"}},
		{Name: "a move ignores the destination's precondition", Break: moves(func(m *metastore.Move, _ metastore.Blob) { m.Precondition = nil }), Caught: []string{"copies/preconditions", "copies/race-one-name", "model/history"}},
		{Name: "a move keeps the source", Break: dbtest.Broken[movesByCopy], Caught: []string{"moves/move", "moves/over", "model/history"}},
		{Name: "a move asks before its transaction", Break: dbtest.Broken[movesAfterAsking], Caught: []string{"copies/race-one-name"}},
		{Name: "a move keeps the owner", Break: moves(func(m *metastore.Move, source metastore.Blob) { m.Owner = source.Owner }), Caught: []string{"moves/move", "moves/usage", "model/history"}},
		{Name: "a move forgets its key", Break: moves(func(m *metastore.Move, _ metastore.Blob) { m.Once = nil }), Caught: []string{"moves/once"}},
		{Name: "a move takes any request with its key", Break: moves(func(m *metastore.Move, _ metastore.Blob) {
			if m.Once != nil {
				once := *m.Once
				once.Hash = [32]byte{}
				m.Once = &once
			}
		}), Caught: []string{"moves/once"}},
		{Name: "a move's record is free", Break: moves(func(m *metastore.Move, _ metastore.Blob) {
			if m.Once != nil {
				once := *m.Once
				once.Owner = ""
				m.Once = &once
			}
		}), Caught: []string{"moves/once"}},
		{Name: "a move never recognizes its result", Break: moves(func(m *metastore.Move, _ metastore.Blob) { m.Made = nil }), Caught: []string{"moves/made", "moves/once"}},
		{Name: "a move recognizes any result", Break: moves(func(m *metastore.Move, _ metastore.Blob) {
			if m.Made != nil {
				m.Made = func(*metastore.Blob) bool { return true }
			}
		}), Caught: []string{"moves/made"}},
		{Name: "a delete returns a shared content", Break: dbtest.Broken[returnsShared], Caught: []string{"copies/delete", "model/history"}},
	})
}

// changesCopies changes a copy before it is made.
type changesCopies struct {
	dbtest.Correct
	change func(c *metastore.Copy, source metastore.Blob)
}

func (s changesCopies) CopyBlob(ctx context.Context, c metastore.Copy) (metastore.Blob, error) {
	source, _ := s.Blob(ctx, c.From.Account, c.From.Name) // zero if there is none
	s.change(&c, source)
	return s.Correct.CopyBlob(ctx, c)
}

// changesMoves changes a move before it is made.
type changesMoves struct {
	dbtest.Correct
	change func(m *metastore.Move, source metastore.Blob)
}

func (s changesMoves) MoveBlob(ctx context.Context, m metastore.Move) (metastore.Blob, error) {
	source, _ := s.Blob(ctx, m.From.Account, m.From.Name) // zero if there is none
	s.change(&m, source)
	return s.Correct.MoveBlob(ctx, m)
}

// copiesObjects stores the source's extents a second time, so that two contents have one object.
type copiesObjects struct{ dbtest.Correct }

func (s copiesObjects) CopyBlob(ctx context.Context, c metastore.Copy) (metastore.Blob, error) {
	b, err := s.Blob(ctx, c.From.Account, c.From.Name)
	to := metastore.BlobName{Account: c.To.Account, Name: c.To.Name}
	if err != nil || to == c.From {
		return s.Correct.CopyBlob(ctx, c)
	}
	extents, err := s.Extents(ctx, b.Content, metastore.Position{}, 10_000)
	if err != nil || b.PartSize > 0 {
		return s.Correct.CopyBlob(ctx, c)
	}
	for i := range extents {
		extents[i].Created = s.Now()
	}
	b.Account, b.Name, b.Owner, b.Expires, b.Content = to.Account, to.Name, c.To.Owner, c.To.Expires, metastore.NewContentID(s.Now())
	if c.Restated {
		b.ContentType, b.Metadata = c.To.ContentType, c.To.Metadata
	}
	return s.CommitBlob(ctx, b, extents, c.Precondition)
}

type copiesExpired struct{ dbtest.Correct }

func (s copiesExpired) CopyBlob(ctx context.Context, c metastore.Copy) (metastore.Blob, error) {
	err := s.Exec(ctx, `UPDATE blobs SET expires = NULL WHERE account = $1 AND expires > $2`, []byte(c.From.Account), s.Now().Add(-time.Hour).UnixMicro())
	if err != nil {
		return metastore.Blob{}, err
	}
	return s.Correct.CopyBlob(ctx, c)
}

// movesByCopy copies blobs that it should move.
type movesByCopy struct{ dbtest.Correct }

func (s movesByCopy) MoveBlob(ctx context.Context, m metastore.Move) (metastore.Blob, error) {
	source, err := s.Blob(ctx, m.From.Account, m.From.Name)
	if err != nil || m.From == m.To {
		return s.Correct.MoveBlob(ctx, m)
	}
	return s.CopyBlob(ctx, asCopy(m, source.Expires))
}

func asCopy(m metastore.Move, expires time.Time) metastore.Copy {
	to := metastore.Blob{Account: m.To.Account, Name: m.To.Name, Owner: m.Owner, Expires: expires}
	return metastore.Copy{From: m.From, To: to, Source: m.Source, Precondition: m.Precondition}
}

// movesAfterAsking calls the precondition on the destination before the transaction.
type movesAfterAsking struct{ dbtest.Correct }

func (s movesAfterAsking) MoveBlob(ctx context.Context, m metastore.Move) (metastore.Blob, error) {
	if m.Precondition != nil {
		var current *metastore.Blob
		if b, err := s.Blob(ctx, m.To.Account, m.To.Name); err == nil {
			current = &b
		}
		if err := m.Precondition(current); err != nil {
			return metastore.Blob{}, err
		}
		m.Precondition = nil
		time.Sleep(5 * time.Millisecond) // the other callers ask meanwhile
	}
	return s.Correct.MoveBlob(ctx, m)
}

// returnsShared returns the content's id whether it has become garbage or not.
type returnsShared struct{ dbtest.Correct }

func (s returnsShared) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	before, _ := s.Blob(ctx, account, name) // zero if there is none
	content, had, err := s.Correct.DeleteBlob(ctx, account, name, precondition)
	if had && before.Name == name {
		content = before.Content
	}
	return content, had, err
}
