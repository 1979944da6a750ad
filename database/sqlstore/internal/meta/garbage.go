package meta

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/usage"
	"sluice/metastore"
)

// addGarbage makes a content garbage. The caller must add the Retained of d, a garbageUsage, to the
// usage of its owner; a trigger subtracts it when the row is deleted.
func (t tx) addGarbage(content metastore.ContentID, d usage.Delta) error {
	return t.addGarbageSince(content, d, t.Now.UnixMicro())
}

// addGarbageSince inserts a content into garbage with this since.
func (t tx) addGarbageSince(content metastore.ContentID, d usage.Delta, since int64) error {
	return t.Change(`INSERT INTO garbage (content, since, owner, charge) VALUES ($1, $2, $3, $4)`,
		content[:], since, engine.OptionalColumn(d.Owner), d.Retained)
}

// stagedFrom is the least since that a content has while it is staged for a commit, and therefore
// not garbage: since is then stagedFrom plus the time, in microseconds, at which purgeStaged makes
// it garbage. Times are far less than stagedFrom.
const stagedFrom = 1 << 62

// PurgeStaged makes contents garbage that were staged for a commit that did not happen.
func PurgeStaged(t *engine.Tx, _ int) (int, error) {
	now := t.Now.UnixMicro()
	n, err := t.Exec(`UPDATE garbage SET since = $1 WHERE since >= $2 AND since <= $3`, now, int64(stagedFrom), stagedFrom+now)
	return int(n), err
}

func (t tx) isGarbage(content metastore.ContentID) (bool, error) {
	var one engine.Integer
	return t.Row(`SELECT 1 FROM garbage WHERE content = $1`, engine.Args{content[:]}, &one)
}

func (t tx) hasExtents(content metastore.ContentID) (bool, error) {
	var one engine.Integer
	return t.Row(`SELECT 1 FROM extents WHERE content = $1 LIMIT 1`, engine.Args{content[:]}, &one)
}

// GarbageContents implements metastore.Garbage. A content is due when it has been garbage for
// exactly the grace.
func (s *Metastore) GarbageContents(ctx context.Context, grace time.Duration, after metastore.GarbageContent, limit int) ([]metastore.GarbageContent, error) {
	var list []metastore.GarbageContent
	read := s.db.ReadForDeletion
	if grace == 0 {
		read = s.db.Read
	}
	err := read(ctx, s.in.On(func(t tx) (err error) {
		due := int64(stagedFrom - 1) // at any time
		if grace > 0 {
			due = t.Now.Add(-grace).UnixMicro()
		}
		var g metastore.GarbageContent
		list, err = engine.Collect(t.Tx, dueGarbage, engine.Args{after.Since.UnixMicro(), after.Content[:], due, int64(limit)},
			engine.Args{(*engine.ContentID)(&g.Content), (*engine.Instant)(&g.Since)}, &g)
		return err
	}))
	return list, err
}

// dueGarbage reads a range in the index garbage_since.
const dueGarbage = `SELECT content, since FROM garbage
	WHERE (since, content) > ($1, $2) AND since <= $3 ORDER BY since, content LIMIT ($4 + 0)`

// GarbageBacklog implements metastore.Garbage.
func (s *Metastore) GarbageBacklog(ctx context.Context, grace time.Duration) (metastore.Backlog, error) {
	var found metastore.Backlog
	err := s.in.Snapshot(ctx, func(t tx) error {
		due := t.Now.Add(-grace).UnixMicro()
		var contents, oldest, bytes engine.Integer
		if _, err := t.Row(backlogSize, engine.Args{due, int64(metastore.MaxBacklog)}, &contents, &oldest); err != nil {
			return err
		}
		_, err := t.Row(backlogBytes, engine.Args{due, int64(metastore.MaxBacklog / 10)}, &bytes)
		found = metastore.Backlog{Contents: int(contents), Bytes: int64(bytes), Oldest: time.Duration(due-int64(oldest)) * time.Microsecond}
		return err
	})
	return found, err
}

const backlogSize = `SELECT COUNT(*), COALESCE(MIN(since), $1) FROM
	(SELECT since FROM garbage WHERE since <= $1 ORDER BY since LIMIT ($2 + 0)) due`

// backlogBytes adds up extents for the oldest contents that are due: at most MaxBacklog/10 of them,
// and at most 1,000 extents of each. A subquery for each content reads them, because a planner
// without statistics would join all extents.
const backlogBytes = `SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM
	(SELECT (SELECT SUM(size) FROM (SELECT e.size FROM extents e WHERE e.content = g.content LIMIT 1000) bounded) AS bytes
		FROM garbage g WHERE g.since <= $1 ORDER BY g.since LIMIT ($2 + 0)) due`

// GarbageObjects implements metastore.Garbage.
func (s *Metastore) GarbageObjects(ctx context.Context, contents []metastore.ContentID) (map[metastore.ContentID][]string, error) {
	if err := checkContents(contents); err != nil {
		return nil, err
	}
	var objects map[metastore.ContentID][]string
	err := s.in.Snapshot(ctx, func(t tx) error {
		objects = make(map[metastore.ContentID][]string, len(contents))
		return forLists(contents, func(list string, in engine.Args) error { return t.garbageObjects(list, in, objects) })
	})
	if err != nil {
		return nil, err
	}
	return objects, nil
}

// smallGarbage is the condition that the content in row g of garbage is small. It reads at most one
// extent more than a small content has.
var smallGarbage = fmt.Sprintf(
	` AND NOT EXISTS (SELECT 1 FROM extents x WHERE x.content = g.content LIMIT 1 OFFSET %d)`, metastore.MaxSmallExtents)

// garbageObjects adds the object keys that the list's small contents have.
func (t tx) garbageObjects(list string, in engine.Args, objects map[metastore.ContentID][]string) error {
	var id metastore.ContentID
	var key engine.OptionalText
	return t.Each(`SELECT g.content, e.object FROM garbage g LEFT JOIN extents e ON e.content = g.content
		WHERE g.content IN (`+list+`)`+smallGarbage, in, engine.Args{(*engine.ContentID)(&id), &key},
		func() error {
			keys := objects[id]
			if key != "" {
				keys = append(keys, string(key))
			}
			objects[id] = keys // an entry even if there are none
			return nil
		})
}

// DropContents implements metastore.Garbage. It locks the rows of garbage ordered by id. Nothing is
// added to a content that is garbage, so that a small one stays small.
func (s *Metastore) DropContents(ctx context.Context, contents []metastore.ContentID) error {
	if err := checkContents(contents); err != nil || len(contents) == 0 {
		return err
	}
	sorted := slices.Clone(contents)
	slices.SortFunc(sorted, func(a, b metastore.ContentID) int { return bytes.Compare(a[:], b[:]) })
	return s.in.WriteLocked(ctx, func(t tx) error {
		return forLists(sorted, t.dropSmall)
	})
}

// dropSmall drops the small contents in a list.
func (t tx) dropSmall(list string, in engine.Args) error {
	var id metastore.ContentID
	small, err := engine.Collect(t.Tx, `SELECT g.content FROM garbage g WHERE g.content IN (`+list+`)`+smallGarbage+` ORDER BY g.content`+t.ForUpdate(),
		in, engine.Args{(*engine.ContentID)(&id)}, &id)
	if err != nil {
		return err
	}
	return forLists(small, func(list string, in engine.Args) error {
		for _, table := range []string{"bodies", "extents", "garbage"} {
			if _, err := t.Exec(`DELETE FROM `+table+` WHERE content IN (`+list+`)`, in...); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkContents(contents []metastore.ContentID) error {
	if len(contents) > metastore.MaxContents {
		return fmt.Errorf("sqlstore: %d contents in a call, at most %d", len(contents), metastore.MaxContents)
	}
	return nil
}

// listSizes are the lengths of lists of parameters. There are few, so that few statements
// are prepared.
var listSizes = []int{1, 16, 256}

var lists = func() map[int]string {
	texts := map[int]string{}
	for _, size := range listSizes {
		parameters := make([]string, size)
		for i := range parameters {
			parameters[i] = "$" + strconv.Itoa(i+1)
		}
		texts[size] = strings.Join(parameters, ", ")
	}
	return texts
}()

// forLists splits contents into runs and calls fn for each with a list's parameters and their
// values. The last value is repeated up to the list's length.
func forLists(contents []metastore.ContentID, fn func(list string, in engine.Args) error) error {
	for len(contents) > 0 {
		size := listSizes[len(listSizes)-1]
		for _, s := range slices.Backward(listSizes) {
			if s >= len(contents) {
				size = s
			}
		}
		run := contents[:min(size, len(contents))]
		in := make(engine.Args, size)
		for i := range in {
			in[i] = run[min(i, len(run)-1)][:]
		}
		if err := fn(lists[size], in); err != nil {
			return err
		}
		contents = contents[len(run):]
	}
	return nil
}

// DropExtents implements metastore.Garbage. It does nothing if the content has no extents, even if
// it is not garbage.
func (s *Metastore) DropExtents(ctx context.Context, content metastore.ContentID, extents []metastore.Position) error {
	return s.in.Write(ctx, func(t tx) error {
		garbage, err := t.isGarbage(content)
		if err != nil {
			return err
		}
		if !garbage {
			live, err := t.hasExtents(content)
			if err == nil && live {
				err = fmt.Errorf("content %v is not garbage: %w", content, database.ErrNotFound)
			}
			return err
		}
		return t.dropExtents(content, extents)
	})
}

func (t tx) dropExtents(content metastore.ContentID, extents []metastore.Position) error {
	// Most contents have no inline extents. Half the statements are then not needed.
	var one engine.Integer
	inline, err := t.Row(`SELECT 1 FROM bodies WHERE content = $1 LIMIT 1`, engine.Args{content[:]}, &one)
	if err != nil {
		return err
	}
	for _, p := range extents {
		_, err := t.Exec(`DELETE FROM extents WHERE content = $1 AND part = $2 AND off = $3`, content[:], int64(p.Part), p.Offset)
		if err != nil {
			return err
		}
		if !inline {
			continue
		}
		_, err = t.Exec(`DELETE FROM bodies WHERE content = $1 AND part = $2 AND off = $3`, content[:], int64(p.Part), p.Offset)
		if err != nil {
			return err
		}
	}
	return nil
}

// DropContent implements metastore.Garbage.
func (s *Metastore) DropContent(ctx context.Context, content metastore.ContentID) error {
	return s.in.Write(ctx, func(t tx) error {
		garbage, err := t.isGarbage(content)
		if err != nil || !garbage {
			return err
		}
		if some, err := t.hasExtents(content); err != nil {
			return err
		} else if some {
			return fmt.Errorf("extents of content %v: %w", content, database.ErrExists)
		}
		_, err = t.Exec(`DELETE FROM garbage WHERE content = $1`, content[:])
		return err
	})
}

// maxUnreferenced is the maximum number of keys in a call of Unreferenced.
const maxUnreferenced = 1000

// Unreferenced implements metastore.Garbage.
func (s *Metastore) Unreferenced(ctx context.Context, keys []string) ([]string, error) {
	if len(keys) > maxUnreferenced {
		return nil, fmt.Errorf("sqlstore: %d keys in a call, at most %d", len(keys), maxUnreferenced)
	}
	wanted := slices.Sorted(slices.Values(keys))
	var free []string
	err := s.db.SnapshotForDeletion(ctx, s.in.On(func(t tx) (err error) {
		free, err = t.unreferenced(wanted)
		return err
	}))
	return free, err
}

// unreferenced merges the sorted keys with the objects' index. A sweep's keys are close together in
// the index, and each query then reads twice as many rows as the last one decided keys. If the keys
// are far apart, each query reads few rows.
func (t tx) unreferenced(wanted []string) (free []string, err error) {
	for size := 1; len(wanted) > 0; {
		rows, left := 0, wanted
		var object string
		err := t.Each(`SELECT object FROM extents WHERE object >= $1 AND object <= $2 ORDER BY object LIMIT ($3 + 0)`,
			engine.Args{[]byte(wanted[0]), []byte(wanted[len(wanted)-1]), int64(size)}, engine.Args{&object},
			func() error {
				rows++
				for len(left) > 0 && left[0] < object {
					free, left = append(free, left[0]), left[1:]
				}
				for len(left) > 0 && left[0] == object {
					left = left[1:]
				}
				return nil
			})
		if err != nil {
			return nil, err
		}
		if rows < size {
			return append(free, left...), nil
		}
		size, wanted = min(2*(len(wanted)-len(left)), maxUnreferenced), left
	}
	return free, nil
}
