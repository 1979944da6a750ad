package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice/bytestore"
	"sluice/database"
)

// prefix begins the names of the objects beside the bytes.
const prefix = "sluice-history-"

// recordsKept is how many records are kept beside the bytes: the latest, and up to as many again
// until they are removed.
const recordsKept = 16

// record is a record as it is beside the bytes.
type record struct {
	generation int64
	database.Record
}

// recordLen is the length in bytes of a record's object.
const recordLen = 16 + 1 + database.OwnerLen + 1 + database.OwnerLen

func recordName(number int64) bytestore.Name {
	return bytestore.Name(fmt.Sprintf("%s%016x", prefix, number))
}

// claimName names the object by which a node asks whether another database holds the bytes, and
// answers with the record of this number.
func claimName(number int64) bytestore.Name { return recordName(number) + "-claim" }

// candidateName names the object of a database that wants to make the record of this number.
func candidateName(number int64, name string) bytestore.Name {
	return claimName(number) + bytestore.Name("-"+name)
}

// parseName returns the number in an object's name, and the rest behind it: "" for a record. It
// returns false for objects that do not belong to the history.
func parseName(object bytestore.Name) (number int64, rest string, ok bool) {
	text, ok := strings.CutPrefix(string(object), prefix)
	if !ok || len(text) < 16 {
		return 0, "", false
	}
	number, err := strconv.ParseInt(text[:16], 16, 64)
	return number, text[16:], err == nil && number > 0
}

func (r record) String() string { return fmt.Sprintf("%016x %s %s", r.generation, r.Owner, r.Nonce) }

// parseRecord parses a record's object. It returns a record without an owner if that is damaged.
func parseRecord(number int64, text string) record {
	fields := strings.Split(text, " ")
	if len(fields) == 3 && len(text) == recordLen && len(fields[1]) == database.OwnerLen {
		generation, err := strconv.ParseInt(fields[0], 16, 64)
		if err == nil && generation > 0 {
			return record{generation, database.Record{Number: number, Owner: fields[1], Nonce: fields[2]}}
		}
	}
	return record{Record: database.Record{Number: number}}
}

// readRecord reads a record beside the bytes. found is false if there is none.
func readRecord(ctx context.Context, bytes bytestore.Store, number int64) (r record, found bool, err error) {
	src, err := bytes.Open(ctx, recordName(number), 0, recordLen)
	switch {
	case errors.Is(err, bytestore.ErrNotFound):
		return record{}, false, nil
	case errors.Is(err, bytestore.ErrTruncated):
		return parseRecord(number, ""), true, nil
	case err != nil:
		return record{}, false, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	text := make([]byte, recordLen)
	if _, err := bytestore.ReadFull(src, text); err != nil {
		return record{}, false, err
	}
	return parseRecord(number, string(text)), true, nil
}

// put puts an object beside the bytes, unless there is one of that name.
func put(ctx context.Context, bytes bytestore.Store, name bytestore.Name, text string) (exists bool, err error) {
	err = bytes.Put(ctx, name, strings.NewReader(text), int64(len(text)))
	if errors.Is(err, bytestore.ErrExists) {
		return true, nil
	}
	return false, err
}

// list calls visit with the objects of the history that are named from a name on.
func list(ctx context.Context, bytes bytestore.Store, from bytestore.Name, visit func(object bytestore.Object, number int64, rest string)) error {
	end := errors.New("no more objects of the history")
	err := bytes.List(ctx, from, func(o bytestore.Object) error {
		number, rest, ok := parseName(o.Name)
		if !ok {
			return end
		}
		visit(o, number, rest)
		return nil
	})
	if errors.Is(err, end) {
		err = nil
	}
	return err
}

// lackedText describes a record beside the bytes that a database lacks.
func lackedText(r record, newest int64) string {
	if r.Owner == "" {
		return fmt.Sprintf("record %d, which is beside the bytes, is damaged", r.Number)
	}
	return fmt.Sprintf("the database lacks record %d, which is beside the bytes: its newest one is %d", r.Number, newest)
}

// latestRecord returns the latest record beside the bytes, and its object's size. It is zero if
// there is none.
func latestRecord(ctx context.Context, bytes bytestore.Store) (r record, size int64, err error) {
	var latest int64
	err = list(ctx, bytes, prefix, func(o bytestore.Object, number int64, rest string) {
		if rest == "" && number > latest {
			latest, size = number, o.Size
		}
	})
	if err != nil || latest == 0 {
		return record{}, 0, err
	}
	r, _, err = readRecord(ctx, bytes, latest)
	return r, size, err
}
