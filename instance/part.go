package instance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice/backup"
	"sluice/metastore"
)

// selection selects a part of a backup: one account's blobs, or some of them, with their versions,
// their folder markers and the account's setting of versions. Its zero value
// selects everything.
type selection struct {
	account, prefix string

	contents map[string]int64 // that these blobs have, and how many share it
	objects  map[string]bool  // that these contents need
}

func (s *selection) partial() bool { return s.account != "" }

// choose reads which contents and objects the selected blobs need.
func (s *selection) choose(ctx context.Context, repo *backup.Repository, m *backup.Manifest) error {
	if !s.partial() {
		return nil
	}
	s.contents, s.objects = map[string]int64{}, map[string]bool{}
	blobs, extents := m.Table("blobs"), m.Table("extents")
	err := rowsOf(ctx, repo, m, blobs, func(rows [][]any) error {
		content, shared := slices.Index(blobs.Columns, "content"), slices.Index(blobs.Columns, "shared")
		for _, row := range s.selected(blobs, rows) {
			id, _ := row[content].([]byte)
			one, _ := row[shared].(int64)
			s.contents[string(id)] += one
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(s.contents) == 0 {
		return fmt.Errorf("%w: the backup has no blob of the account %q with a name that begins with %q", backup.ErrNotFound, s.account, s.prefix)
	}
	return repo.Rows(ctx, extents, func(rows [][]any) error {
		content, object := slices.Index(extents.Columns, "content"), slices.Index(extents.Columns, "object")
		for _, row := range rows {
			id, _ := row[content].([]byte)
			if name, ok := row[object].([]byte); ok && s.has(id) {
				s.objects[string(name)] = true
			}
		}
		return nil
	})
}

// has reports whether a selected blob has this content.
func (s *selection) has(content []byte) bool {
	if !s.partial() {
		return true
	}
	_, ok := s.contents[string(content)]
	return ok
}

// needs reports whether a selected blob needs this object.
func (s *selection) needs(object string) bool { return !s.partial() || s.objects[object] }

func (s *selection) selected(blobs *backup.Table, rows [][]any) (list [][]any) {
	account, head, tail := slices.Index(blobs.Columns, "account"), slices.Index(blobs.Columns, "name_head"), slices.Index(blobs.Columns, "name_tail")
	for _, row := range rows {
		h, _ := row[head].([]byte)
		t, _ := row[tail].([]byte)
		if s.hasAccount(row[account]) && strings.HasPrefix(string(h)+string(t), s.prefix) {
			list = append(list, row)
		}
	}
	return list
}

// hasAccount reports whether blobs in a row's account are the selected account's.
func (s *selection) hasAccount(of any) bool {
	account, _ := of.([]byte)
	markers := metastore.MarkersOf(s.account)
	return slices.Contains([]string{s.account, markers, metastore.KeptOf(s.account), metastore.KeptOf(markers)}, string(account))
}

// replaces reports whether a table's rows in the target are replaced. Tables from which rows
// selects none have rows that every instance needs.
func (s *selection) replaces(table string) bool {
	return !s.partial() || slices.Contains([]string{"blobs", "keeping", "starts", "extents", "shares"}, table)
}

// rows returns a table's rows that are restored. A part of a backup has blobs without
// owners, because their keys are not part of it.
func (s *selection) rows(t *backup.Table, rows [][]any) [][]any {
	if !s.partial() {
		return rows
	}
	switch t.Name {
	case "blobs":
		owner := slices.Index(t.Columns, "owner")
		list := s.selected(t, rows)
		for _, row := range list {
			row[owner] = nil
		}
		return list
	case "keeping":
		account := slices.Index(t.Columns, "account")
		return slices.DeleteFunc(rows, func(row []any) bool { return !s.hasAccount(row[account]) })
	case "starts", "extents":
		content := slices.Index(t.Columns, "content")
		return slices.DeleteFunc(rows, func(row []any) bool {
			id, _ := row[content].([]byte)
			return !s.has(id)
		})
	default:
		return nil
	}
}

// shares returns the rows that count how many selected blobs share a content.
func (s *selection) shares(columns []string) (rows [][]any) {
	for content, n := range s.contents {
		if n == 0 {
			continue
		}
		row := make([]any, len(columns))
		row[slices.Index(columns, "content")], row[slices.Index(columns, "refs")] = []byte(content), n
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b []any) int { return bytes.Compare(contentIn(a), contentIn(b)) })
	return rows
}

func contentIn(row []any) []byte { content, _ := row[0].([]byte); return content }
