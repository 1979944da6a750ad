package metatest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var moveChecks = []dbtest.Check{
	check("moves/move", moveMembers),
	check("moves/over", moveOver),
	check("moves/onto-itself", moveOntoItself),
	check("moves/made", moveMade),
	check("moves/once", moveOnce),
	check("moves/usage", moveUsage),
}

// moved moves a blob within account a, and keeps its owner.
func (p *probe) moved(from metastore.Blob, to string) metastore.Blob {
	b, err := p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(from), To: named(to), Owner: from.Owner})
	p.OK(err, "move of %.40q to %.40q", from.Name, to)
	return b
}

// moveMembers moves a blob with all members set, between short and long names and accounts, and
// then one that a copy shares its content with.
func moveMembers(p *probe) {
	extents := []metastore.Extent{p.Extent(0, 0, dbtest.MiB+1), p.Inline(0, dbtest.MiB+1, []byte("xy"))}
	want := p.put(metastore.Blob{
		Account: "a", Name: "source", CRC64: 1 << 63, SHA256: bytes.Repeat([]byte{0, 0xff}, 16), ContentType: "text/\xff",
		Metadata: "\x00m\n", Owner: "x", Expires: p.Clock.Now().Add(time.Hour),
	}, extents...)
	long := string(bytes.Repeat([]byte("n"), 3000))
	for i, to := range []metastore.BlobName{
		named("moved"), {Account: "b", Name: "moved"}, {}, named(long), named(long + "1"), {Account: "b", Name: long}, named("source"),
	} {
		if i == 4 {
			p.copied(want, metastore.Blob{Account: "c", Name: "copy"})
		}
		p.Clock.Advance(time.Second)
		from := blobName(want)
		owner := []string{"x", "", "y"}[i%3]
		got, err := p.Store.MoveBlob(p.Ctx, metastore.Move{From: from, To: to, Owner: owner})
		p.OK(err, "move %d", i)
		want.Account, want.Name, want.Owner, want.Modified = to.Account, to.Name, owner, p.Clock.Now()
		p.Equal(got, want, "move %d", i)
		p.reads(want, stored(extents...), "move %d", i)
		p.missing(from, "the source of move %d", i)
		p.Must(len(p.Garbage()) == 0, "a move made garbage")
		p.Audited()
	}
	p.Reopen()
	p.reads(want, stored(extents...), "a reopen")
	for i, extents := range [][]metastore.Extent{nil, {p.Inline(0, 0, []byte("x"))}} {
		b := p.put(metastore.Blob{Account: "a", Name: fmt.Sprint("small", i)}, extents...)
		moved := p.moved(b, "moved")
		p.Equal(moved.Content, b.Content, "content of a small blob that was moved")
		p.reads(moved, stored(extents...), "the move of a small blob")
		p.remove("a", "moved")
	}
	p.Must(len(p.Garbage()) == 2, "%d contents are garbage, not two", len(p.Garbage()))
}

// moveOver moves over blobs with another content and with the same.
func moveOver(p *probe) {
	source, e := p.Put("a", "source")
	old, _ := p.Put("a", "to")
	moved := p.moved(source, "to")
	p.reads(moved, stored(e), "a move over a blob")
	p.Equal(p.Garbage(), []metastore.ContentID{old.Content}, "garbage after a move over a blob")
	p.Audited()
	p.drop()
	p.copied(moved, metastore.Blob{Account: "a", Name: "copy"})
	third := p.copied(moved, metastore.Blob{Account: "a", Name: "third"})
	moved = p.moved(moved, "copy")
	p.reads(moved, stored(e), "a move over a copy")
	p.Must(len(p.Garbage()) == 0, "a move over a copy made garbage")
	p.Audited()
	moved = p.moved(third, "copy")
	p.reads(moved, stored(e), "a move over the last copy")
	p.Must(len(p.Garbage()) == 0, "a move over the last copy made garbage")
	p.Audited()
	p.Equal(p.names("a"), []string{"copy"}, "names after the moves")
	p.remove("a", "copy")
	p.Equal(p.Garbage(), []metastore.ContentID{source.Content}, "garbage")
	p.drop()
	p.put(metastore.Blob{Account: "a", Name: "expired", Expires: p.Clock.Now().Add(time.Second)}, p.Extent(0, 0, 4))
	p.Clock.Advance(time.Second)
	b, _ := p.Put("a", "source")
	_, err := p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(b), To: named("expired"), Precondition: createOnly})
	p.OK(err, "move over an expired blob")
	p.Must(len(p.Garbage()) == 1, "%d contents are garbage after a move over an expired blob", len(p.Garbage()))
	p.Audited()
}

// moveOntoItself checks that nothing changes, not even the owner.
func moveOntoItself(p *probe) {
	b := p.putFor("x", "name", 9)
	extents := p.allExtents(b.Content)
	p.Clock.Advance(time.Minute)
	for range 2 {
		got, err := p.Store.MoveBlob(p.Ctx, metastore.Move{From: blobName(b), To: blobName(b), Owner: "y", Once: dbtest.Idem("move", "itself")})
		p.OK(err, "move onto itself")
		got.ContentType, got.Metadata = b.ContentType, b.Metadata
		p.Equal(got, b, "move onto itself")
	}
	p.reads(b, extents, "a move onto itself")
	p.uses("x", 9, 0, "a move onto itself")
	p.uses("y", 0, 0, "a move onto itself")
	p.Audited()
}

// moveMade repeats moves by a caller who recognizes the result.
func moveMade(p *probe) {
	b, e := p.Put("a", "source")
	var asked []metastore.Blob
	made := func(answer bool) func(*metastore.Blob) bool {
		return func(current *metastore.Blob) bool {
			asked = append(asked, *current)
			return answer
		}
	}
	move := func(to string, answer bool) (metastore.Blob, error) {
		return p.Store.MoveBlob(p.Ctx, metastore.Move{
			From: named("source"), To: named(to), Made: made(answer),
			Source: func(*metastore.Blob) error { return nil }, Precondition: createOnly,
		})
	}
	p.Put("a", "other")
	moved := dbtest.Value(move("to", false))
	p.Must(len(asked) == 0, "a move that has a source asks whether it was made")
	p.Clock.Advance(time.Second)
	again, err := move("to", true)
	p.OK(err, "repeated move")
	p.Equal(again, moved, "repeated move")
	p.Equal(asked, []metastore.Blob{moved}, "asked about")
	_, err = move("to", false)
	p.Is(err, metastore.ErrNoSource, "repeated move that was not made")
	p.Is(err, database.ErrNotFound, "repeated move that was not made")
	asked = nil
	_, err = move("none", true)
	p.Is(err, metastore.ErrNoSource, "move without a source and without a result")
	p.Must(len(asked) == 0, "a move without a result asks whether it was made")
	p.reads(moved, stored(e), "repeated moves")
	p.Put("a", "source") // the source is a new blob
	p.identical(dbtest.Error(move("to", true)), errRefused, "move of a new source")
	p.remove("a", "source")
	p.Must(!p.isGarbage(b.Content), "the moved content is garbage")
	p.restated(metastore.Blob{Account: "a", Name: "to", Expires: p.Clock.Now().Add(time.Second)})
	p.Clock.Advance(time.Second)
	_, err = move("to", true)
	p.Is(err, metastore.ErrNoSource, "repeated move with a result that has expired")
	p.Must(len(asked) == 0, "an expired result is asked about")
	p.Audited()
}

// moveOnce repeats moves with an idempotency key: each returns the recorded result, whatever has
// become of both blobs, until the retention ends.
func moveOnce(p *probe) {
	once := func(key string) *database.Idempotency {
		idem := dbtest.Idem("move", key)
		idem.Owner = "z"
		return idem
	}
	p.Clock.Advance(time.Second - time.Duration(p.Clock.Now().Nanosecond()))
	b := p.put(metastore.Blob{
		Account: "a", Name: "source", CRC64: 1<<64 - 1, SHA256: bytes.Repeat([]byte{0, 0xff}, 16), ContentType: "type", Metadata: "metadata",
		Owner: "x", Expires: p.Clock.Now().Add(100 * time.Hour),
	}, p.Extent(0, 0, 5))
	p.Put("a", "to") // so that the result shares its second
	move := func(key string) (metastore.Blob, error) {
		return p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("source"), To: named("to"), Owner: "y", Once: once(key)})
	}
	first := dbtest.Value(move("k"))
	p.Must(first.SharedSecond && first.Content == b.Content && first.Metadata == "metadata", "the move returned %+v", first)
	first.ContentType, first.Metadata = "", ""
	repeated := func(change string) {
		for range 2 {
			got, err := move("k")
			p.OK(err, "move repeated after %s", change)
			got.ContentType, got.Metadata = "", ""
			p.Equal(got, first, "move repeated after %s", change)
		}
	}
	repeated("nothing")
	noRecord := errors.New("no room for a record")
	for key, want := range map[string]error{"k": nil, "l": noRecord} {
		for _, from := range []string{"source", "to"} { // of no source, and onto itself
			m := metastore.Move{From: named(from), To: named("to"), Owner: "y", Once: once(key), NoRecord: noRecord, Made: func(*metastore.Blob) bool { return true }}
			_, err := p.Store.MoveBlob(p.Ctx, m)
			p.Is(err, want, "move from %s with key %s", from, key)
		}
	}
	p.retains("z", metastore.RowCharge, "a move with a key")
	_, err := move("l")
	p.Is(err, metastore.ErrNoSource, "move with another key")
	p.retains("z", metastore.RowCharge, "a move that failed")
	p.Clock.Advance(time.Hour)
	other, _ := p.Put("a", "source")
	repeated("a new source")
	p.Equal(dbtest.Value(p.Store.Blob(p.Ctx, "a", "source")), other, "the new source after a repeated move")
	p.remove("a", "to")
	repeated("a deletion")
	p.missing(named("to"), "the result that was deleted")
	p.Reopen()
	repeated("a reopen")
	reuse := once("k")
	reuse.Hash[0]++
	_, err = p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("source"), To: named("to"), Once: reuse})
	p.Is(err, database.ErrIdempotencyReuse, "another request with the key")
	p.Clock.Advance(database.IdempotencyRetention - time.Hour - time.Microsecond)
	repeated("almost the retention")
	p.Clock.Advance(time.Microsecond)
	again := dbtest.Value(move("k"))
	p.Must(again.Content == other.Content && again.Modified.Equal(p.Clock.Now()), "a move after the retention returned %+v", again)
	p.retains("z", metastore.RowCharge, "another move")
	p.Purge()
	p.retains("z", metastore.RowCharge, "a purge")
	p.Clock.Advance(database.IdempotencyRetention)
	p.Purge()
	p.retains("z", 0, "forgetting a record")

	// A refusal is not recorded, and a recognized result is.
	p.remove("a", "to")
	source, _ := p.Put("a", "source")
	_, err = p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("source"), To: named("to"), Once: once("r"), Source: func(*metastore.Blob) error { return errRefused }})
	p.identical(err, errRefused, "move")
	p.retains("z", 0, "a refusal")
	p.Equal(dbtest.Value(move("r")).Content, source.Content, "content after a refusal and a move")
	made := metastore.Move{From: named("source"), To: named("to"), Once: once("m"), Made: func(*metastore.Blob) bool { return true }}
	p.Equal(dbtest.Value(p.Store.MoveBlob(p.Ctx, made)).Content, source.Content, "content of a recognized result")
	p.remove("a", "to")
	p.Equal(dbtest.Value(p.Store.MoveBlob(p.Ctx, made)).Content, source.Content, "content of a recorded result")
	p.Audited()

	// Among concurrent calls one moves.
	p.Put("a", "source")
	handle := p.Open()
	results := make([]metastore.Blob, 8)
	errs := dbtest.Race(len(results), func(i int) (err error) {
		s := p.Store
		if i%2 == 1 {
			s = handle
		}
		idem := dbtest.Idem("move", "race")
		results[i], err = s.MoveBlob(p.Ctx, metastore.Move{From: named("source"), To: named("to"), Once: idem})
		return err
	})
	p.OK(errors.Join(errs...), "racing moves")
	for _, b := range results {
		p.Equal(b, results[0], "result of a racing move")
	}
}

// moveUsage checks each owner's whole usage after copies and moves.
func moveUsage(p *probe) {
	const row = metastore.RowCharge
	uses := func(after string, want map[string]metastore.Used) {
		for _, owner := range []string{"x", "y", "z", ""} {
			got, err := p.Store.Usage(p.Ctx, owner)
			p.OK(err, "usage of %q", owner)
			p.Equal(got, want[owner], "usage of %q after %s", owner, after)
		}
	}
	type used = map[string]metastore.Used
	b := p.put(metastore.Blob{Account: "a", Name: "one", Metadata: "mm", Owner: "x"}, p.Extent(0, 0, 100))
	one := metastore.Used{Bytes: 100, Objects: 1, Names: 5}
	uses("a commit", used{"x": one})
	p.copied(b, metastore.Blob{Account: "a", Name: "four", Owner: "y"})
	four := metastore.Used{Bytes: 100, Objects: 1, Names: 6}
	uses("a copy for another owner", used{"x": one, "y": four})
	p.copied(b, metastore.Blob{Account: "b", Name: "free"})
	uses("a copy for nobody", used{"x": one, "y": four})
	c := metastore.Copy{From: blobName(b), To: metastore.Blob{Account: "b", Name: "f", Owner: "x", Metadata: "mmmmm"}, Restated: true}
	dbtest.Value(p.Store.CopyBlob(p.Ctx, c))
	uses("a restated copy", used{"x": {Bytes: 200, Objects: 2, Names: 11}, "y": four})
	dbtest.Value(p.Store.CopyBlob(p.Ctx, c))
	uses("a repeated copy", used{"x": {Bytes: 200, Objects: 2, Names: 11}, "y": four})
	p.copied(b, metastore.Blob{Account: "b", Name: "f", Owner: "y"})
	uses("a copy over a copy for another owner", used{"x": one, "y": {Bytes: 200, Objects: 2, Names: 9}})
	p.remove("b", "f")
	uses("a delete of a copy", used{"x": one, "y": four}) // nothing becomes garbage
	p.moved(b, "moved")
	uses("a move", used{"x": {Bytes: 100, Objects: 1, Names: 7}, "y": four})
	dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("moved"), To: named("one"), Owner: "z"}))
	uses("a move to another owner", used{"z": one, "y": four})
	dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("one"), To: named("four"), Owner: "x"}))
	uses("a move over a copy", used{"x": four})
	p.remove("b", "free")
	uses("a delete of a copy of nobody", used{"x": four})
	p.put(metastore.Blob{Account: "a", Name: "two", Owner: "z"}, p.Extent(0, 0, 7))
	dbtest.Value(p.Store.MoveBlob(p.Ctx, metastore.Move{From: named("two"), To: named("four"), Owner: "y"}))
	uses("a move over the last blob", used{"x": {Retained: row + 100}, "y": {Bytes: 7, Objects: 1, Names: 4}})
	p.put(metastore.Blob{Account: "a", Name: "in", Owner: "x", Metadata: "m"}, p.Inline(0, 0, []byte("abc")))
	p.copied(metastore.Blob{Account: "a", Name: "in"}, metastore.Blob{Account: "a", Name: "four", Owner: "z"})
	uses("a copy of an inline content", used{
		"x": {Bytes: 3, Objects: 1, Names: 3, Retained: row + 100}, "y": {Retained: row + 7}, "z": {Bytes: 3, Objects: 1, Names: 5},
	})
	p.remove("a", "in")
	p.remove("a", "four")
	uses("deleting everything", used{"x": {Retained: 2*row + 103}, "y": {Retained: row + 7}, "z": {Retained: row + 3}})
	p.Purge()
	p.Reopen()
	uses("a purge", used{"x": {Retained: 2*row + 103}, "y": {Retained: row + 7}, "z": {Retained: row + 3}})
	p.drop()
	uses("freeing it", nil)
	p.Audited()
}
