package sqlstore

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"sluice/metastore"
)

// errSecondQuery is the error of a page that needs several queries, and therefore a snapshot.
var errSecondQuery = errors.New("sqlstore: the page needs a second query")

// ListBlobs implements metastore.Blobs. Most pages without a delimiter are one query, which sees one
// state of the database without a transaction around it.
func (s *Store) ListBlobs(ctx context.Context, q metastore.ListQuery) (page metastore.Page, err error) {
	list := func(queries int) func(*tx) error {
		return func(t *tx) error {
			c := newNameCursor(t, q, s.eng.headCondition())
			c.queries = queries
			page, err = c.list(q)
			return err
		}
	}
	if q.Delimiter == "" {
		if err := s.read(ctx, list(1)); !errors.Is(err, errSecondQuery) {
			return page, err
		}
	}
	err = s.snapshot(ctx, list(math.MaxInt))
	return page, err
}

// list returns a page and closes the cursor.
func (c *nameCursor) list(q metastore.ListQuery) (page metastore.Page, err error) {
	defer func() {
		if cerr := c.close(); err == nil {
			err = cerr
		}
	}()
	last := ""
	for {
		ok, err := c.next()
		if err != nil || !ok || !strings.HasPrefix(c.blob.Name, q.Prefix) {
			return page, err
		}
		group := groupOf(c.blob.Name, q)
		listed := group == "" || group > q.After
		if listed && len(page.Blobs)+len(page.Prefixes) == q.Limit {
			page.Next = last
			return page, nil
		}
		if group == "" {
			if n := len(page.Blobs); n == cap(page.Blobs) { // a page is often short or full
				page.Blobs = slices.Grow(page.Blobs, min(max(16, 7*n), q.Limit-n))
			}
			page.Blobs = append(page.Blobs, c.blob)
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

// nameCursor iterates over the unexpired blobs of an account in the order of their names and
// can skip names. Names up to headLen are read in the order of the key. Longer names with the
// same head are ordered by a hash in the key, and are read by the index blobs_long_names,
// one head at a time.
type nameCursor struct {
	t       *tx
	account string
	headIs  string // see engine.headCondition
	size    int    // limit of the next query
	most    int    // maximum limit of a query
	queries int    // maximum number of further queries

	from   string // the cursor is before the first name that is not less than from
	inHead bool   // the current query is over the names that begin with from[:headLen]
	rows   rows
	open   bool
	got    int // number of rows of the current query

	head, tail string
	blob       metastore.Blob // found by next
	columns    string         // of a blob
	fields     args           // the first column is the head, or the tail in a query over one head
}

func newNameCursor(t *tx, q metastore.ListQuery, headIs string) *nameCursor {
	c := &nameCursor{t: t, headIs: headIs, account: q.Account, size: q.Limit + 1, most: q.Limit + 1}
	if q.Delimiter != "" {
		c.size = 1
	}
	c.blob.Account = q.Account
	// The least string greater than s is s with a zero byte appended.
	c.from = max(q.Prefix, q.After+"\x00")
	if q.After == "" {
		c.from = q.Prefix
	}
	c.inHead = len(c.from) >= headLen
	c.columns = blobColumns
	c.fields = append(args{nil}, blobFields(&c.blob)...)
	if !q.Metadata {
		c.columns = blobColumnsAlone
		c.fields = c.fields[:len(c.fields)-1]
	}
	return c
}

// seek moves the cursor before the first name that is not less than from.
func (c *nameCursor) seek(from string) error {
	c.from = from
	c.inHead = len(from) >= headLen
	return c.close()
}

// skip is seek past a group. The next name is likely to be in another group, of which one
// row suffices. The next query therefore has a limit of one row, and each further one of
// twice as many.
func (c *nameCursor) skip(from string) error {
	c.size = 1
	return c.seek(from)
}

func (c *nameCursor) close() error {
	if !c.open {
		return nil
	}
	c.open = false
	return c.rows.close()
}

// next finds the next blob. It returns false at the end of the account.
func (c *nameCursor) next() (bool, error) {
	for {
		if err := c.query(); err != nil {
			return false, err
		}
		ok, err := c.rows.next(c.fields)
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
	if c.queries == 0 {
		return errSecondQuery
	}
	c.queries--
	c.got = 0
	now := c.t.now.UnixMicro()
	if c.inHead {
		c.head, c.fields[0] = c.from[:headLen], &c.tail
		c.rows, err = c.t.open(`SELECT name_tail, `+c.columns+` FROM blobs
			WHERE account = $1 AND `+c.headIs+` AND length(name_head) = 2000 AND name_tail >= $3
				AND (expires IS NULL OR expires > $4)
			ORDER BY name_tail LIMIT ($5 + 0)`,
			args{[]byte(c.account), []byte(c.head), []byte(c.from[headLen:]), now, int64(c.size)})
	} else {
		c.tail, c.fields[0] = "", &c.head
		c.rows, err = c.t.open(`SELECT name_head, `+c.columns+` FROM blobs
			WHERE account = $1 AND name_head >= $2 AND (expires IS NULL OR expires > $3)
			ORDER BY name_head, name_hash LIMIT ($4 + 0)`,
			args{[]byte(c.account), []byte(c.from), now, int64(c.size)})
	}
	c.open = err == nil
	return err
}
