package meta

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/metastore"
)

// entryCharge is a page's entry's charge against ListQuery.Bytes in addition to its texts.
const entryCharge = database.EntryCharge

// ListBlobs implements metastore.Blobs.
func (s *Metastore) ListBlobs(ctx context.Context, q metastore.ListQuery) (metastore.Page, error) {
	if q.Bytes == 0 {
		q.Bytes = math.MaxInt64
	}
	transact, list := s.in.SnapshotList, tx.listNames
	if s.db.ListsInside() {
		transact, list = s.in.ReadList, tx.listByStatement
	}
	return engine.ResultOf(ctx, transact, func(t tx) (metastore.Page, error) {
		page, err := list(t, listing{q, firstName(q), t.Now.UnixMicro()})
		for i := range page.Blobs {
			page.Blobs[i].Lock = shownLock(page.Blobs[i].Lock, t)
		}
		return page, err
	})
}

// listing is a query for a page.
type listing struct {
	metastore.ListQuery
	first string // the least name that the page may list
	live  int64  // blobs that expired until then are not listed
}

// listNames returns a page by queries over the names, which cost no round trips.
func (t tx) listNames(q listing) (page metastore.Page, err error) {
	c := newNameCursor(t, q)
	defer func() {
		if cerr := c.close(); err == nil {
			err = cerr
		}
	}()
	left := engine.NewBound(q.Limit, q.Bytes)
	last := ""
	for {
		ok, err := c.next()
		if err != nil || !ok || !strings.HasPrefix(c.blob.Name, q.Prefix) {
			return page, err
		}
		group := groupOf(c.blob.Name, q.ListQuery)
		listed := group == "" || group > q.After
		if listed && !left.Take(entryBytes(&c.blob, group)) {
			page.Next = last
			return page, nil
		}
		if group == "" {
			page.Blobs = appendBlob(page.Blobs, c.blob, q.Limit)
			last = c.blob.Name
			continue
		}
		if listed {
			page.Prefixes = append(page.Prefixes, group)
			last = group
		}
		behind, ok := successor(group)
		if !ok {
			return page, nil
		}
		if err := c.skip(behind); err != nil {
			return page, err
		}
	}
}

// The kinds of rows that the function list_blobs returns.
const (
	rowBlob = iota
	rowGroup
	rowMore
)

// listByStatement returns a page by one statement, or by two if there are long names.
func (t tx) listByStatement(q listing) (metastore.Page, error) {
	if q.Delimiter == "" && !q.Metadata && len(q.Prefix) < headLen && len(q.first) < headLen {
		if page, ok, err := t.listAlone(q); ok || err != nil {
			return page, err
		}
	}
	return t.listInside(q)
}

// listAlone returns a page of names, without groups and metadata, in less time than list_blobs. It
// returns false if it finds a name with headLen bytes or more: the index does not have those in
// order.
func (t tx) listAlone(q listing) (page metastore.Page, ok bool, err error) {
	b := metastore.Blob{Account: q.Account}
	fields := append(engine.Args{&b.Name}, blobFields(&b)...)
	args := engine.Args{[]byte(q.Account), []byte(q.first), q.live, int64(q.Limit) + 1}
	bound := ""
	if behind, bounded := successor(q.Prefix); bounded {
		bound, args = ` AND name_head < $5`, append(args, []byte(behind))
	}
	rows, err := t.Open(`SELECT name_head, `+blobColumnsAlone+` FROM blobs
		WHERE account = $1 AND name_head >= $2 AND (expires IS NULL OR expires > $3)`+bound+`
		ORDER BY name_head, name_hash LIMIT ($4 + 0)`, args)
	if err != nil {
		return page, false, err
	}
	defer func() {
		if cerr := rows.Close(); err == nil {
			err = cerr
		}
	}()
	left := engine.NewBound(q.Limit, q.Bytes)
	last := ""
	for {
		more, err := rows.Next(fields[:len(fields)-1])
		if err != nil || !more {
			return page, true, err
		}
		if len(b.Name) >= headLen {
			return metastore.Page{}, false, nil
		}
		if !left.Take(entryBytes(&b, "")) {
			page.Next = last
			return page, true, nil
		}
		page.Blobs = appendBlob(page.Blobs, b, q.Limit)
		last = b.Name
	}
}

// listInside returns a page by one statement, the function list_blobs.
func (t tx) listInside(q listing) (page metastore.Page, err error) {
	var kind engine.Integer
	var head, tail, last string
	var b metastore.Blob
	b.Account = q.Account
	out := append(engine.Args{&kind, &head, &tail}, blobFields(&b)...)
	columns := blobColumns
	if !q.Metadata {
		columns, out = blobColumnsAlone, out[:len(out)-1]
	}
	withMetadata := int64(0)
	if q.Metadata {
		withMetadata = 1
	}
	err = t.Each(`SELECT kind, head, tail, `+columns+` FROM list_blobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		engine.Args{[]byte(q.Account), []byte(q.Prefix), []byte(q.Delimiter), []byte(q.After), []byte(q.first), q.live,
			withMetadata, int64(q.Limit), q.Bytes, int64(entryCharge)},
		out, func() error {
			switch kind {
			case rowBlob:
				b.Name = head + tail
				page.Blobs = appendBlob(page.Blobs, b, q.Limit)
				last = b.Name
			case rowGroup:
				page.Prefixes = append(page.Prefixes, head)
				last = head
			case rowMore:
				page.Next = last
			default:
				return fmt.Errorf("list_blobs returned a row of kind %d", kind)
			}
			return nil
		})
	return page, err
}

// appendBlob appends a blob to one of at most limit. A page is often short or full.
func appendBlob(list []metastore.Blob, b metastore.Blob, limit int) []metastore.Blob {
	if n := len(list); n == cap(list) {
		list = slices.Grow(list, min(max(16, 7*n), limit-n))
	}
	return append(list, b)
}

// entryBytes returns an entry's charge against ListQuery.Bytes: a group's, or a blob's if group is
// empty.
func entryBytes(b *metastore.Blob, group string) int64 {
	if group != "" {
		return int64(len(group)) + entryCharge
	}
	return int64(len(b.Name)+len(b.ContentType)+len(b.Metadata)) + entryCharge
}

// groupOf returns the group under which a name is listed, or "" if the name itself is listed.
func groupOf(name string, q metastore.ListQuery) string {
	if q.Delimiter == "" {
		return ""
	}
	i := strings.Index(name[len(q.Prefix):], q.Delimiter)
	if i < 0 {
		return ""
	}
	return name[:len(q.Prefix)+i+len(q.Delimiter)]
}

// successor returns the first string in byte order that is greater than all strings with the
// prefix s. It returns false if there is none.
func successor(s string) (string, bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] != 0xff {
			return s[:i] + string([]byte{s[i] + 1}), true
		}
	}
	return "", false
}

// nameCursor iterates over an account's unexpired blobs, ordered by name, and can skip names. Names
// up to headLen are read in key order. Longer names with the same head are ordered by a hash in the
// key, and are read by the index blobs_long_names, one head at a time.
type nameCursor struct {
	t       tx
	account string
	live    int64
	size    int // the next query's limit
	most    int // a query's maximum limit

	from   string // the cursor is before the first name that is not less than from
	inHead bool   // the current query is over the names that begin with from[:headLen]
	rows   engine.Rows
	open   bool
	got    int // the current query's number of rows

	head, tail string
	blob       metastore.Blob // found by next
	columns    string         // of a blob
	fields     engine.Args    // the first column is the head, or the tail in a query over one head
}

func newNameCursor(t tx, q listing) *nameCursor {
	c := &nameCursor{t: t, account: q.Account, size: q.Limit + 1, most: q.Limit + 1, from: q.first, live: q.live}
	if q.Delimiter != "" {
		c.size = 1
	}
	c.blob.Account = q.Account
	c.inHead = len(c.from) >= headLen
	c.columns = blobColumns
	c.fields = append(engine.Args{nil}, blobFields(&c.blob)...)
	if !q.Metadata {
		c.columns = blobColumnsAlone
		c.fields = c.fields[:len(c.fields)-1]
	}
	return c
}

// firstName returns the least name that a page may list.
func firstName(q metastore.ListQuery) string {
	if q.After == "" {
		return q.Prefix
	}
	return max(q.Prefix, q.After+"\x00") // the least string greater than After
}

// seek moves the cursor before the first name that is not less than from.
func (c *nameCursor) seek(from string) error {
	c.from = from
	c.inHead = len(from) >= headLen
	return c.close()
}

// skip is seek past a group. The next name is likely to be in another group, where one row
// suffices. The next query therefore has a limit of one row, and each further one of twice as many.
func (c *nameCursor) skip(from string) error {
	c.size = 1
	return c.seek(from)
}

func (c *nameCursor) close() error {
	if !c.open {
		return nil
	}
	c.open = false
	return c.rows.Close()
}

// next finds the next blob. It returns false at the account's end.
func (c *nameCursor) next() (bool, error) {
	for {
		if err := c.query(); err != nil {
			return false, err
		}
		ok, err := c.rows.Next(c.fields)
		switch {
		case err != nil:
			return false, err
		case ok && !c.inHead && len(c.head) == headLen:
			if err := c.seek(c.head); err != nil {
				return false, err
			}
		case ok:
			c.got++
			c.blob.Name = c.head + c.tail
			return true, nil
		case c.got == c.size: // the query ended at its limit
			c.size = min(2*c.size, c.most)
			if err := c.seek(c.blob.Name + "\x00"); err != nil {
				return false, err
			}
		case c.inHead:
			behind := c.from[:headLen] + "\x00"
			if err := c.seek(behind); err != nil {
				return false, err
			}
			c.inHead = false
		default:
			return false, nil
		}
	}
}

// query opens the next query, unless one is open.
func (c *nameCursor) query() (err error) {
	if c.open {
		return nil
	}
	c.got = 0
	if c.inHead {
		c.head, c.fields[0] = c.from[:headLen], &c.tail
		c.rows, err = c.t.Open(`SELECT name_tail, `+c.columns+` FROM blobs
			WHERE account = $1 AND name_head = $2 AND length(name_head) = 2000 AND name_tail >= $3
				AND (expires IS NULL OR expires > $4)
			ORDER BY name_tail LIMIT ($5 + 0)`,
			engine.Args{[]byte(c.account), []byte(c.head), []byte(c.from[headLen:]), c.live, int64(c.size)})
	} else {
		c.tail, c.fields[0] = "", &c.head
		c.rows, err = c.t.Open(`SELECT name_head, `+c.columns+` FROM blobs
			WHERE account = $1 AND name_head >= $2 AND (expires IS NULL OR expires > $3)
			ORDER BY name_head, name_hash LIMIT ($4 + 0)`,
			engine.Args{[]byte(c.account), []byte(c.from), c.live, int64(c.size)})
	}
	c.open = err == nil
	return err
}
