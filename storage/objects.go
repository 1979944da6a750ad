package storage

import (
	"context"
	"errors"
	"time"

	"sluice/bytestore"
	"sluice/database/sqlstore"
	"sluice/metastore"
)

// Object is an object that metadata refer to.
type Object = sqlstore.Object

// ObjectIterator iterates over the objects that metadata refer to, ordered by name.
type ObjectIterator struct {
	SQL  *sqlstore.Store
	Live bool // it skips garbage

	Current Object // after Next
	Done    bool   // there is no current object

	page []Object
}

// Next goes to the next object, which at first is the first one.
func (i *ObjectIterator) Next(ctx context.Context) error {
	for {
		if err := i.step(ctx); err != nil || i.Done || !i.Live || !i.Current.Garbage {
			return err
		}
	}
}

func (i *ObjectIterator) step(ctx context.Context) error {
	if len(i.page) == 0 {
		const pageSize = 1000
		var err error
		if i.page, err = i.SQL.Objects(ctx, i.Current.Object, pageSize); err != nil {
			return err
		}
		if len(i.page) == 0 {
			i.Done = true
			return nil
		}
	}
	i.Current, i.page = i.page[0], i.page[1:]
	return nil
}

// Comparison has the functions that a comparison of objects calls. An error of theirs ends it.
type Comparison struct {
	Known   func(Object) error                             // for each object that metadata refer to
	Missing func(o Object, why string) error               // for each one that is missing or cut, with the reason
	Longer  func(Object) error                             // for each one with more bytes than it should have
	Unknown func(o bytestore.Object, made time.Time) error // for each other object
}

// run merges two sorted lists: the objects that exist, and those that the metadata refer to,
// without garbage. It holds a page of each. A listing may lack an object that exists, so each is
// looked for again before it is reported.
func (c *Comparison) run(ctx context.Context, sql *sqlstore.Store, bytes bytestore.Store) error {
	rows := ObjectIterator{SQL: sql}
	if err := rows.Next(ctx); err != nil {
		return err
	}
	pass := func(size int64) error { // -1: it was not listed
		if !rows.Current.Garbage {
			err := c.Known(rows.Current)
			if err == nil && size != rows.Current.Size {
				err = c.lookAgain(ctx, bytes, rows.Current)
			}
			if err != nil {
				return err
			}
		}
		return rows.Next(ctx)
	}
	before := func(name bytestore.Name) error { // an empty name is after all names
		for !rows.Done && (name == "" || rows.Current.Object < string(name)) {
			if err := pass(-1); err != nil {
				return err
			}
		}
		return nil
	}
	err := bytes.List(ctx, "", func(o bytestore.Object) error {
		if err := before(o.Name); err != nil {
			return err
		}
		if !rows.Done && rows.Current.Object == string(o.Name) {
			return pass(o.Size)
		}
		if made, ok := o.Name.Created(); ok {
			return c.Unknown(o, made)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return before("")
}

// lookAgain looks for an object that a listing did not have, or had with another size.
func (c *Comparison) lookAgain(ctx context.Context, bytes bytestore.Store, o Object) error {
	for _, more := range []int64{0, 1} {
		r, err := bytes.Open(ctx, bytestore.Name(o.Object), 0, o.Size+more)
		switch {
		case errors.Is(err, bytestore.ErrNotFound):
			return c.Missing(o, "is missing")
		case errors.Is(err, bytestore.ErrTruncated) && more == 0:
			return c.Missing(o, "is cut")
		case errors.Is(err, bytestore.ErrTruncated):
			return nil
		case err != nil:
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return c.Longer(o)
}

// Differences are how an instance's objects differ from its metadata's references.
type Differences struct {
	Objects int64 // that the metadata refer to, without garbage

	// Missing are the objects that do not exist or are cut, and MissingBytes the sizes that they
	// should have.
	Missing, MissingBytes int64
	// Blobs are some blobs and versions that need them (see metastore.Blob.Path), and DamagedBlobs
	// is how many there are, or a smaller number if More is set.
	Blobs        []string
	DamagedBlobs int64
	More         bool

	// Unknown are the objects that nothing refers to. Their names have the times when they were
	// made.
	Unknown, UnknownBytes int64
	First, Last           time.Time
}

// maxContents bounds the contents that compare remembers because objects of them are missing.
const maxContents = 100_000

// compare compares the objects that exist with those that metadata refer to, and names at most
// names blobs that lack objects. It calls step after every 1,000 objects to which metadata refer;
// an error of step ends it. Objects that are stored or freed meanwhile may be among the
// differences.
func compare(ctx context.Context, sql *sqlstore.Store, bytes bytestore.Store, names int, step func(objects int64) error) (found Differences, err error) {
	lacking := map[metastore.ContentID]bool{}
	c := Comparison{
		Known: func(Object) error {
			if found.Objects++; found.Objects%1000 == 0 {
				return step(found.Objects)
			}
			return nil
		},
		Missing: func(o Object, _ string) error {
			found.Missing++
			found.MissingBytes += o.Size
			if len(lacking) == maxContents && !lacking[o.Content] {
				found.More = true
				return nil
			}
			lacking[o.Content] = true
			return nil
		},
		Longer: func(Object) error { return nil }, // it can be read
		Unknown: func(o bytestore.Object, made time.Time) error {
			if found.Unknown == 0 || made.Before(found.First) {
				found.First = made
			}
			if made.After(found.Last) {
				found.Last = made
			}
			found.Unknown++
			found.UnknownBytes += o.Size
			return nil
		},
	}
	if err := c.run(ctx, sql, bytes); err != nil || len(lacking) == 0 {
		return found, err
	}
	return found, eachBlob(ctx, sql, func(b metastore.Blob) {
		if !lacking[b.Content] {
			return
		}
		if found.DamagedBlobs++; len(found.Blobs) < names {
			found.Blobs = append(found.Blobs, b.Path())
		}
	})
}

// eachBlob calls fn with each blob that has not expired.
func eachBlob(ctx context.Context, meta metastore.Store, fn func(metastore.Blob)) error {
	const page = 1000
	for after := ""; ; {
		accounts, err := meta.ListAccounts(ctx, after, page)
		if err != nil {
			return err
		}
		for _, a := range accounts {
			for q := (metastore.ListQuery{Account: a.Account, Limit: page}); ; {
				list, err := meta.ListBlobs(ctx, q)
				if err != nil {
					return err
				}
				for _, b := range list.Blobs {
					fn(b)
				}
				if q.After = list.Next; q.After == "" {
					break
				}
			}
			after = a.Account
		}
		if len(accounts) < page {
			return nil
		}
	}
}
