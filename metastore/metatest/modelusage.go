package metatest

import (
	"context"
	"maps"
	"slices"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/metastore"
)

// owners are a history's owners, including none.
func (h *history) owners() []string {
	return []string{"", h.model.account + " x", h.model.account + " y"}
}

// used returns an owner's usage: blobs, also expired ones, the parts of open uploads,
// garbage, and the outcomes and records that were not purged.
func (m *model) used(owner string) (sum metastore.Used) {
	for _, b := range m.blobs {
		if b.Owner == owner {
			sum.Bytes += b.Size
			sum.Objects++
			sum.Names += int64(len(b.Name) + len(b.Metadata))
		}
	}
	for _, c := range m.charges {
		if c.owner == owner {
			sum.Retained += c.bytes
		}
	}
	for _, o := range m.once {
		if o.owner == owner {
			sum.Retained += 1024
		}
	}
	for _, u := range m.uploads {
		if u.Owner == owner && !u.forgotten {
			sum.Retained += 1024 + int64(len(u.Name))
		}
		if u.Owner != owner || u.State != metastore.UploadOpen {
			continue
		}
		sum.Uploads++
		sum.Objects += int64(len(u.parts))
		sum.Names += int64(len(u.Name) + len(u.Metadata))
		for _, e := range u.parts {
			sum.Bytes += e.Size
		}
	}
	return sum
}

// usage compares the usage of each owner on every handle.
func (h *history) usage() {
	for _, owner := range h.owners() {
		want := h.model.used(owner)
		if owner == "" {
			want = metastore.Used{}
		}
		for _, s := range h.handles {
			got, err := s.Usage(h.p.Ctx, owner)
			h.p.Agree("usage of "+owner, got, want, err, nil)
		}
	}
}

// accounts compares the counts for the history's account, over every handle. Earlier histories have
// left no blobs in their accounts.
func (h *history) accounts() {
	var want []metastore.Account
	if len(h.model.blobs) > 0 {
		want = []metastore.Account{{Account: h.model.account, Blobs: int64(len(h.model.blobs))}}
	}
	for _, b := range h.model.blobs {
		want[0].Bytes += b.Size
	}
	for _, s := range h.handles {
		got, err := s.ListAccounts(h.p.Ctx, "", 10)
		h.p.Agree("accounts", got, want, err, nil)
	}
}

// churn replaces a blob more often than a store keeps records of it, and deletes it.
func (h *history) churn(ctx context.Context, s whole.Database, owner string) {
	const name = "churned"
	for range 20 {
		h.commit(ctx, s, name, owner, false, false)
	}
	h.remove(ctx, s, name)
}

// Purge purges until nothing is left.
func (h *history) Purge(ctx context.Context, s whole.Database, limit int) {
	for n := 1; n > 0; {
		n = dbtest.Value(s.Purge(ctx, limit))
	}
	m, now := h.model, h.p.Clock.Now()
	for _, u := range m.uploads {
		if u.State == metastore.UploadOpen && !now.Before(u.Touched.Add(metastore.UploadIdleLimit)) {
			m.abort(u, now)
		}
		u.forgotten = u.forgotten || !u.Ended.IsZero() && !now.Before(u.Ended.Add(metastore.UploadRetention))
	}
	for key, o := range m.once {
		if !now.Before(o.at.Add(database.IdempotencyRetention)) {
			delete(m.once, key)
		}
	}
	// The last blob that had a content is charged for the garbage.
	for _, b := range slices.SortedFunc(maps.Values(m.blobs), func(a, b metastore.Blob) int { return a.Expires.Compare(b.Expires) }) {
		if !b.Expires.IsZero() && !now.Before(b.Expires.Add(metastore.ExpiredBlobGrace)) {
			delete(m.blobs, b.Name)
			m.release(b)
		}
	}
	for id, s := range m.sessions {
		if !now.Before(s.Expires.Add(ledger.SessionRetention)) {
			delete(m.sessions, id)
		}
	}
}

// Reopen closes all handles and opens as many new ones.
func (h *history) Reopen() {
	h.p.OK(h.p.Harness.Close(), "close")
	for i := range h.handles {
		h.handles[i] = h.p.Open()
	}
	h.p.Store = h.handles[0]
}

// leave removes the history's blobs and records that would expire in a later one. Then the usage
// must be zero.
func (h *history) leave() {
	ctx, s, m := h.p.Ctx, h.handles[0], h.model
	for name := range m.blobs {
		h.remove(ctx, s, name)
	}
	for id, u := range m.uploads {
		if u.State == metastore.UploadOpen {
			h.abort(ctx, s, id)
		}
	}
	for _, owner := range h.owners() {
		used, err := s.Usage(ctx, owner)
		used.Retained = 0 // see settle
		h.p.Agree("usage of "+owner+" at the end", used, metastore.Used{}, err, nil)
	}
	h.settle()
	h.usage()
}
