package tracing

import (
	"context"
	"time"

	"sluice/access/keys"
	"sluice/database/whole"
	"sluice/ledger"
	"sluice/metastore"
)

// Meta returns a store that starts a span for each call on behalf of a traced request.
func (t *Tracer) Meta(store whole.Database) whole.Database { return metaStore{store, t} }

// metaStore adds spans to the methods that requests call: not to those of database.Maintenance,
// Properties, Leases and Nodes, which background tasks use.
type metaStore struct {
	whole.Database
	*Tracer
}

// Blob implements metastore.Store.
func (m metaStore) Blob(ctx context.Context, account, name string) (_ metastore.Blob, err error) {
	ctx, span := m.begin(ctx, "metastore.Blob")
	defer span.end(&err)
	return m.Database.Blob(ctx, account, name)
}

// OpenBlob implements metastore.Store.
func (m metaStore) OpenBlob(ctx context.Context, account, name string) (_ metastore.Blob, _ []metastore.Extent, err error) {
	ctx, span := m.begin(ctx, "metastore.OpenBlob")
	defer span.end(&err)
	return m.Database.OpenBlob(ctx, account, name)
}

// CommitBlob implements metastore.Store.
func (m metaStore) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (_ metastore.Blob, err error) {
	ctx, span := m.begin(ctx, "metastore.CommitBlob")
	defer span.end(&err)
	return m.Database.CommitBlob(ctx, b, extents, precondition)
}

// DeleteBlob implements metastore.Store.
func (m metaStore) DeleteBlob(ctx context.Context, account, name string, precondition metastore.Precondition) (_ metastore.ContentID, _ bool, err error) {
	ctx, span := m.begin(ctx, "metastore.DeleteBlob")
	defer span.end(&err)
	return m.Database.DeleteBlob(ctx, account, name, precondition)
}

// ListBlobs implements metastore.Store.
func (m metaStore) ListBlobs(ctx context.Context, q metastore.ListQuery) (_ metastore.Page, err error) {
	ctx, span := m.begin(ctx, "metastore.ListBlobs")
	defer span.end(&err)
	return m.Database.ListBlobs(ctx, q)
}

// Extents implements metastore.Store.
func (m metaStore) Extents(ctx context.Context, content metastore.ContentID, from metastore.Position, limit int) (_ []metastore.Extent, err error) {
	ctx, span := m.begin(ctx, "metastore.Extents")
	defer span.end(&err)
	return m.Database.Extents(ctx, content, from, limit)
}

// ListAccounts implements metastore.Store.
func (m metaStore) ListAccounts(ctx context.Context, after string, limit int) (_ []metastore.Account, err error) {
	ctx, span := m.begin(ctx, "metastore.ListAccounts")
	defer span.end(&err)
	return m.Database.ListAccounts(ctx, after, limit)
}

// BeginUpload implements metastore.Store.
func (m metaStore) BeginUpload(ctx context.Context, u metastore.Upload) (_ metastore.Upload, err error) {
	ctx, span := m.begin(ctx, "metastore.BeginUpload")
	defer span.end(&err)
	return m.Database.BeginUpload(ctx, u)
}

// Upload implements metastore.Store.
func (m metaStore) Upload(ctx context.Context, id string) (_ metastore.Upload, err error) {
	ctx, span := m.begin(ctx, "metastore.Upload")
	defer span.end(&err)
	return m.Database.Upload(ctx, id)
}

// PutPart implements metastore.Store.
func (m metaStore) PutPart(ctx context.Context, uploadID string, p metastore.Part, extents []metastore.Extent) (err error) {
	ctx, span := m.begin(ctx, "metastore.PutPart")
	defer span.end(&err)
	return m.Database.PutPart(ctx, uploadID, p, extents)
}

// Parts implements metastore.Store.
func (m metaStore) Parts(ctx context.Context, uploadID string, after, limit int) (_ []metastore.Part, err error) {
	ctx, span := m.begin(ctx, "metastore.Parts")
	defer span.end(&err)
	return m.Database.Parts(ctx, uploadID, after, limit)
}

// CompleteUpload implements metastore.Store.
func (m metaStore) CompleteUpload(ctx context.Context, id string, revision, size int64, crc64 uint64, precondition metastore.Precondition) (_ metastore.Upload, err error) {
	ctx, span := m.begin(ctx, "metastore.CompleteUpload")
	defer span.end(&err)
	return m.Database.CompleteUpload(ctx, id, revision, size, crc64, precondition)
}

// AbortUpload implements metastore.Store.
func (m metaStore) AbortUpload(ctx context.Context, id string) (_ metastore.ContentID, err error) {
	ctx, span := m.begin(ctx, "metastore.AbortUpload")
	defer span.end(&err)
	return m.Database.AbortUpload(ctx, id)
}

// ListUploads implements metastore.Store.
func (m metaStore) ListUploads(ctx context.Context, account, after string, limit int, bytes int64) (_ []metastore.Upload, _ bool, err error) {
	ctx, span := m.begin(ctx, "metastore.ListUploads")
	defer span.end(&err)
	return m.Database.ListUploads(ctx, account, after, limit, bytes)
}

// CreateSession implements metastore.Store.
func (m metaStore) CreateSession(ctx context.Context, s ledger.Session, idem *ledger.Idempotency) (_ ledger.Session, err error) {
	ctx, span := m.begin(ctx, "metastore.CreateSession")
	defer span.end(&err)
	return m.Database.CreateSession(ctx, s, idem)
}

// Session implements metastore.Store.
func (m metaStore) Session(ctx context.Context, id string) (_ ledger.Session, err error) {
	ctx, span := m.begin(ctx, "metastore.Session")
	defer span.end(&err)
	return m.Database.Session(ctx, id)
}

// UseSession implements metastore.Store.
func (m metaStore) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (_ ledger.Session, err error) {
	ctx, span := m.begin(ctx, "metastore.UseSession")
	defer span.end(&err)
	return m.Database.UseSession(ctx, id, n, idem)
}

// ChargeSession implements metastore.Store.
func (m metaStore) ChargeSession(ctx context.Context, id string, n int64, charge string) (_ ledger.Session, err error) {
	ctx, span := m.begin(ctx, "metastore.ChargeSession")
	defer span.end(&err)
	return m.Database.ChargeSession(ctx, id, n, charge)
}

// ReturnCharge implements metastore.Store.
func (m metaStore) ReturnCharge(ctx context.Context, id string, charge string) (_ ledger.Session, err error) {
	ctx, span := m.begin(ctx, "metastore.ReturnCharge")
	defer span.end(&err)
	return m.Database.ReturnCharge(ctx, id, charge)
}

// ReturnChunksets implements metastore.Store.
func (m metaStore) ReturnChunksets(ctx context.Context, id string, n int64, request string) (_ ledger.Session, err error) {
	ctx, span := m.begin(ctx, "metastore.ReturnChunksets")
	defer span.end(&err)
	return m.Database.ReturnChunksets(ctx, id, n, request)
}

// OpenChannel implements metastore.Store.
func (m metaStore) OpenChannel(ctx context.Context, c ledger.Channel, idem *ledger.Idempotency) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.OpenChannel")
	defer span.end(&err)
	return m.Database.OpenChannel(ctx, c, idem)
}

// RecordedChannel implements metastore.Store.
func (m metaStore) RecordedChannel(ctx context.Context, idem ledger.Idempotency) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.RecordedChannel")
	defer span.end(&err)
	return m.Database.RecordedChannel(ctx, idem)
}

// Channel implements metastore.Store.
func (m metaStore) Channel(ctx context.Context, id string) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.Channel")
	defer span.end(&err)
	return m.Database.Channel(ctx, id)
}

// FindChannel implements metastore.Store.
func (m metaStore) FindChannel(ctx context.Context, sender, receiver, asset string, paymentChannelID int64) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.FindChannel")
	defer span.end(&err)
	return m.Database.FindChannel(ctx, sender, receiver, asset, paymentChannelID)
}

// ChannelSessions implements metastore.Store.
func (m metaStore) ChannelSessions(ctx context.Context, id string, limit int) (_ []ledger.Session, err error) {
	ctx, span := m.begin(ctx, "metastore.ChannelSessions")
	defer span.end(&err)
	return m.Database.ChannelSessions(ctx, id, limit)
}

// Buy implements metastore.Store.
func (m metaStore) Buy(ctx context.Context, p ledger.Purchase, idem *ledger.Idempotency) (_ ledger.Session, err error) {
	ctx, span := m.begin(ctx, "metastore.Buy")
	defer span.end(&err)
	return m.Database.Buy(ctx, p, idem)
}

// PayRead implements metastore.Store.
func (m metaStore) PayRead(ctx context.Context, r ledger.ReadPurchase) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.PayRead")
	defer span.end(&err)
	return m.Database.PayRead(ctx, r)
}

// ReturnCredit implements metastore.Store.
func (m metaStore) ReturnCredit(ctx context.Context, id string, count, price int64, request string) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.ReturnCredit")
	defer span.end(&err)
	return m.Database.ReturnCredit(ctx, id, count, price, request)
}

// ReturnRead implements metastore.Store.
func (m metaStore) ReturnRead(ctx context.Context, p ledger.Payment, charge string) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.ReturnRead")
	defer span.end(&err)
	return m.Database.ReturnRead(ctx, p, charge)
}

// AddDeposit implements metastore.Store.
func (m metaStore) AddDeposit(ctx context.Context, id string, amount int64, idem *ledger.Idempotency) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.AddDeposit")
	defer span.end(&err)
	return m.Database.AddDeposit(ctx, id, amount, idem)
}

// CloseChannel implements metastore.Store.
func (m metaStore) CloseChannel(ctx context.Context, id string) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.CloseChannel")
	defer span.end(&err)
	return m.Database.CloseChannel(ctx, id)
}

// Settlements implements metastore.Store.
func (m metaStore) Settlements(ctx context.Context, after ledger.Settlement, limit int) (_ []ledger.Settlement, err error) {
	ctx, span := m.begin(ctx, "metastore.Settlements")
	defer span.end(&err)
	return m.Database.Settlements(ctx, after, limit)
}

// Book implements metastore.Store.
func (m metaStore) Book(ctx context.Context, list []ledger.Settlement) (err error) {
	ctx, span := m.begin(ctx, "metastore.PayOut")
	defer span.end(&err)
	return m.Database.Book(ctx, list)
}

// Unsettled implements metastore.Store.
func (m metaStore) Unsettled(ctx context.Context) (_ ledger.Unsettled, err error) {
	ctx, span := m.begin(ctx, "metastore.Unsettled")
	defer span.end(&err)
	return m.Database.Unsettled(ctx)
}

// RecordReading implements metastore.Store.
func (m metaStore) RecordReading(ctx context.Context, id string, r ledger.Reading) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.RecordReading")
	defer span.end(&err)
	return m.Database.RecordReading(ctx, id, r)
}

// Renew implements metastore.Store.
func (m metaStore) Renew(ctx context.Context, p ledger.Payment) (_ ledger.Channel, err error) {
	ctx, span := m.begin(ctx, "metastore.Renew")
	defer span.end(&err)
	return m.Database.Renew(ctx, p)
}

// DueSettlements implements metastore.Store.
func (m metaStore) DueSettlements(ctx context.Context, ahead time.Duration, after ledger.Settlement, limit int) (_ []ledger.Settlement, err error) {
	ctx, span := m.begin(ctx, "metastore.DueSettlements")
	defer span.end(&err)
	return m.Database.DueSettlements(ctx, ahead, after, limit)
}

// BeginSubmission implements metastore.Store.
func (m metaStore) BeginSubmission(ctx context.Context, s ledger.Submission) (err error) {
	ctx, span := m.begin(ctx, "metastore.BeginSubmission")
	defer span.end(&err)
	return m.Database.BeginSubmission(ctx, s)
}

// SubmissionsInFlight implements metastore.Store.
func (m metaStore) SubmissionsInFlight(ctx context.Context, after string, limit int) (_ []ledger.Submission, err error) {
	ctx, span := m.begin(ctx, "metastore.SubmissionsInFlight")
	defer span.end(&err)
	return m.Database.SubmissionsInFlight(ctx, after, limit)
}

// EndSubmission implements metastore.Store.
func (m metaStore) EndSubmission(ctx context.Context, channel string, sequence int64, o ledger.Outcome) (err error) {
	ctx, span := m.begin(ctx, "metastore.EndSubmission")
	defer span.end(&err)
	return m.Database.EndSubmission(ctx, channel, sequence, o)
}

// StopSelling implements metastore.Store.
func (m metaStore) StopSelling(ctx context.Context, channel string, sequence int64, reason string) (err error) {
	ctx, span := m.begin(ctx, "metastore.StopSelling")
	defer span.end(&err)
	return m.Database.StopSelling(ctx, channel, sequence, reason)
}

// Postpone implements metastore.Store.
func (m metaStore) Postpone(ctx context.Context, channel string, sequence int64, due time.Time) (err error) {
	ctx, span := m.begin(ctx, "metastore.Postpone")
	defer span.end(&err)
	return m.Database.Postpone(ctx, channel, sequence, due)
}

// Submission implements metastore.Store.
func (m metaStore) Submission(ctx context.Context, channel string) (_ ledger.Submission, err error) {
	ctx, span := m.begin(ctx, "metastore.Submission")
	defer span.end(&err)
	return m.Database.Submission(ctx, channel)
}

// FailedSubmissions implements metastore.Store.
func (m metaStore) FailedSubmissions(ctx context.Context, limit int) (_ []ledger.Submission, err error) {
	ctx, span := m.begin(ctx, "metastore.FailedSubmissions")
	defer span.end(&err)
	return m.Database.FailedSubmissions(ctx, limit)
}

// Halted implements metastore.Store.
func (m metaStore) Halted(ctx context.Context) (_ string, err error) {
	ctx, span := m.begin(ctx, "metastore.Halted")
	defer span.end(&err)
	return m.Database.Halted(ctx)
}

// Resume implements metastore.Store.
func (m metaStore) Resume(ctx context.Context) (err error) {
	ctx, span := m.begin(ctx, "metastore.Resume")
	defer span.end(&err)
	return m.Database.Resume(ctx)
}

// TotalStored implements metastore.Store.
func (m metaStore) TotalStored(ctx context.Context) (blobs, bytes int64, err error) {
	ctx, span := m.begin(ctx, "metastore.TotalStored")
	defer span.end(&err)
	return m.Database.TotalStored(ctx)
}

// CreateKey implements metastore.Store.
func (m metaStore) CreateKey(ctx context.Context, k keys.Key) (_ keys.Key, err error) {
	ctx, span := m.begin(ctx, "metastore.CreateKey")
	defer span.end(&err)
	return m.Database.CreateKey(ctx, k)
}

// Key implements metastore.Store.
func (m metaStore) Key(ctx context.Context, id string) (_ keys.Key, err error) {
	ctx, span := m.begin(ctx, "metastore.Key")
	defer span.end(&err)
	return m.Database.Key(ctx, id)
}

// ListKeys implements metastore.Store.
func (m metaStore) ListKeys(ctx context.Context, after string, limit int) (_ []keys.Key, err error) {
	ctx, span := m.begin(ctx, "metastore.ListKeys")
	defer span.end(&err)
	return m.Database.ListKeys(ctx, after, limit)
}

// UpdateKey implements metastore.Store.
func (m metaStore) UpdateKey(ctx context.Context, id string, change func(k *keys.Key)) (_ keys.Key, err error) {
	ctx, span := m.begin(ctx, "metastore.UpdateKey")
	defer span.end(&err)
	return m.Database.UpdateKey(ctx, id, change)
}

// GroupLimits implements metastore.Store.
func (m metaStore) GroupLimits(ctx context.Context, group string) (_ keys.Limits, err error) {
	ctx, span := m.begin(ctx, "metastore.GroupLimits")
	defer span.end(&err)
	return m.Database.GroupLimits(ctx, group)
}

// SetGroupLimits implements metastore.Store.
func (m metaStore) SetGroupLimits(ctx context.Context, group string, change func(l *keys.Limits)) (_ keys.Limits, err error) {
	ctx, span := m.begin(ctx, "metastore.SetGroupLimits")
	defer span.end(&err)
	return m.Database.SetGroupLimits(ctx, group, change)
}

// RevokeKey implements metastore.Store.
func (m metaStore) RevokeKey(ctx context.Context, id string) (_ keys.Key, err error) {
	ctx, span := m.begin(ctx, "metastore.RevokeKey")
	defer span.end(&err)
	return m.Database.RevokeKey(ctx, id)
}

// KeysVersion implements metastore.Store.
func (m metaStore) KeysVersion(ctx context.Context) (_ int64, err error) {
	ctx, span := m.begin(ctx, "metastore.KeysVersion")
	defer span.end(&err)
	return m.Database.KeysVersion(ctx)
}

// Usage implements metastore.Store.
func (m metaStore) Usage(ctx context.Context, owner string) (_ metastore.Used, err error) {
	ctx, span := m.begin(ctx, "metastore.Usage")
	defer span.end(&err)
	return m.Database.Usage(ctx, owner)
}

// GarbageContents implements metastore.Store.
func (m metaStore) GarbageContents(ctx context.Context, grace time.Duration, after metastore.GarbageContent, limit int) (_ []metastore.GarbageContent, err error) {
	ctx, span := m.begin(ctx, "metastore.GarbageContents")
	defer span.end(&err)
	return m.Database.GarbageContents(ctx, grace, after, limit)
}

// GarbageBacklog implements metastore.Store.
func (m metaStore) GarbageBacklog(ctx context.Context, grace time.Duration) (_ metastore.Backlog, err error) {
	ctx, span := m.begin(ctx, "metastore.GarbageBacklog")
	defer span.end(&err)
	return m.Database.GarbageBacklog(ctx, grace)
}

// GarbageObjects implements metastore.Store.
func (m metaStore) GarbageObjects(ctx context.Context, contents []metastore.ContentID) (_ map[metastore.ContentID][]string, err error) {
	ctx, span := m.begin(ctx, "metastore.GarbageObjects")
	defer span.end(&err)
	return m.Database.GarbageObjects(ctx, contents)
}

// DropContents implements metastore.Store.
func (m metaStore) DropContents(ctx context.Context, contents []metastore.ContentID) (err error) {
	ctx, span := m.begin(ctx, "metastore.DropContents")
	defer span.end(&err)
	return m.Database.DropContents(ctx, contents)
}

// DropExtents implements metastore.Store.
func (m metaStore) DropExtents(ctx context.Context, content metastore.ContentID, extents []metastore.Position) (err error) {
	ctx, span := m.begin(ctx, "metastore.DropExtents")
	defer span.end(&err)
	return m.Database.DropExtents(ctx, content, extents)
}

// DropContent implements metastore.Store.
func (m metaStore) DropContent(ctx context.Context, content metastore.ContentID) (err error) {
	ctx, span := m.begin(ctx, "metastore.DropContent")
	defer span.end(&err)
	return m.Database.DropContent(ctx, content)
}
