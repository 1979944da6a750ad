package admin

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	"sluice/access/actions"
	"sluice/access/keys"
	"sluice/checksum"
	"sluice/metastore"
	"sluice/wire"
)

// Damaged returns the extents that are known to have damaged bytes, with the blobs'
// names. If there is damage, a call reads the names of all blobs.
func (s *Service) Damaged(ctx context.Context, by By, after string, limit int) (out wire.DamagePage, err error) {
	if _, err := s.everything(ctx, by); err != nil {
		return out, err
	}
	from, err := extentAfter(after)
	if err != nil {
		return out, err
	}
	page, err := s.store.Damages(ctx, from, min(limit, metastore.MaxContents)+1)
	if err != nil {
		return out, err
	}
	if len(page) > min(limit, metastore.MaxContents) {
		page = page[:len(page)-1]
		last := page[len(page)-1].ExtentID
		out.Next = fmt.Sprintf("%s.%d.%d", last.Content, last.Part, last.Offset)
	}
	owners, err := s.blobsOf(ctx, page)
	if err != nil {
		return wire.DamagePage{}, err
	}
	out.Damaged = []wire.Damage{}
	for _, d := range page {
		out.Damaged = append(out.Damaged, wire.Damage{
			Content: d.Content.String(), Part: d.Part, Offset: d.Offset, Size: d.Size, Object: d.Object, Bytes: d.Bytes, Since: d.Since, Reason: d.Reason,
			Blobs: append([]wire.DamagedBlob{}, owners[d.Content]...),
		})
	}
	return out, nil
}

// blobsOf returns the blobs with the damaged contents.
func (s *Service) blobsOf(ctx context.Context, page []metastore.Damage) (map[metastore.ContentID][]wire.DamagedBlob, error) {
	owners := map[metastore.ContentID][]wire.DamagedBlob{}
	if len(page) == 0 {
		return owners, nil
	}
	var contents []metastore.ContentID
	for _, d := range page {
		contents = append(contents, d.Content)
	}
	blobs, err := s.store.BlobsWith(ctx, slices.Compact(contents))
	for _, b := range blobs {
		of := wire.DamagedBlob{Account: b.Account, Name: b.Name}
		if b.Version != (metastore.Version{}) {
			of.Version = b.Version.String()
		}
		owners[b.Content] = append(owners[b.Content], of)
	}
	return owners, err
}

// extentAfter parses a page's next.
func extentAfter(text string) (id metastore.ExtentID, err error) {
	if text == "" {
		return id, nil
	}
	var content string
	_, err = fmt.Sscanf(text, "%32s.%d.%d", &content, &id.Part, &id.Offset)
	raw, hexErr := hex.DecodeString(content)
	if err != nil || hexErr != nil || copy(id.Content[:], raw) != len(id.Content) {
		return id, errAfter
	}
	return id, nil
}

var errAfter = fmt.Errorf("%w: after must be the next of a page", ErrInvalid)

// Uploads returns the open uploads of all accounts, sorted by id. A page's texts have at most
// the given bytes, see metastore.Uploads.
func (s *Service) Uploads(ctx context.Context, by By, after string, limit int, bytes int64) (out wire.OpenUploadPage, err error) {
	if _, err := s.everything(ctx, by); err != nil {
		return out, err
	}
	list, more, err := s.store.OpenUploads(ctx, after, limit, bytes)
	if err != nil {
		return out, err
	}
	out.Uploads = []wire.OpenUpload{}
	for _, u := range list {
		out.Uploads = append(out.Uploads, wire.OpenUpload{Upload: UploadOf(u), Group: u.Owner})
	}
	if more {
		out.Next = list[len(list)-1].ID
	}
	return out, nil
}

// UploadOf returns an upload as clients see it.
func UploadOf(u metastore.Upload) wire.Upload {
	out := wire.Upload{
		UploadID: u.ID, Account: u.Account, Name: u.Name, PartSize: u.PartSize, State: string(u.State), Bytes: u.Bytes, Created: u.Created,
	}
	switch u.State {
	case metastore.UploadOpen:
		out.Expires = u.Touched.Add(metastore.UploadIdleLimit)
	case metastore.UploadCommitted:
		out.ETag = checksum.ETag(u.Size, u.CRC64)
	}
	return out
}

// maxScanned is how many actions a call reads at most.
const maxScanned = 20_000

// Actions returns the recorded actions, the newest first. An administrator with some accounts sees
// actions by keys in its group, and those about accounts alone where it administers all names. A
// page may then have fewer entries than limit, even none, and a next.
func (s *Service) Actions(ctx context.Context, by By, before string, limit int) (out wire.ActionPage, err error) {
	a, err := s.actorOf(ctx, by)
	if err != nil {
		return out, err
	}
	out.Actions = []wire.Action{}
	size := 0
	for range maxScanned / listPage {
		page, err := s.store.ListActions(ctx, before, listPage)
		if err != nil {
			return wire.ActionPage{}, err
		}
		for i := range page {
			if !a.seesAction(&page[i]) {
				continue
			}
			if len(out.Actions) == limit || size > pageBytes {
				out.Next = out.Actions[len(out.Actions)-1].ID
				return out, nil
			}
			out.Actions = append(out.Actions, actionOf(&page[i]))
			size += len(page[i].Before) + len(page[i].After)
		}
		if len(page) < listPage {
			return out, nil
		}
		before = page[len(page)-1].ID
	}
	out.Next = before
	return out, nil
}

// seesAction reports whether they may see an action.
func (a actor) seesAction(made *actions.Action) bool {
	if a.everything() || made.Group == a.key.Group {
		return true
	}
	return len(made.Accounts) > 0 && !slices.ContainsFunc(made.Accounts, func(account string) bool {
		return !covers(a.key.Grants, keys.Grant{Accounts: []string{account}}, administers)
	})
}

func actionOf(a *actions.Action) wire.Action {
	return wire.Action{
		ID: a.ID, Time: a.Time, Key: a.Key, Group: a.Group, From: a.From, Action: a.Name, Subject: a.Subject, Accounts: a.Accounts, Before: a.Before, After: a.After,
	}
}
