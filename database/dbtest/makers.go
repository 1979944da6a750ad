package dbtest

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"sluice/access/keys"
	"sluice/database"
	"sluice/ledger"
	"sluice/metastore"
)

// Content returns a new content id.
func (p *Probe) Content() metastore.ContentID { return metastore.NewContentID(p.Clock.Now()) }

// object returns a new object's name.
func (p *Probe) object() string {
	n := p.Next()
	return fmt.Sprintf("%02x-key-%d", n%256, n)
}

// Extent returns an extent with a new key.
func (p *Probe) Extent(part int, off, size int64) metastore.Extent {
	e := metastore.Extent{Part: part, Offset: off, Size: size, Object: p.object(), Created: p.Clock.Now()}
	for at := int64(0); at < size; at += MiB {
		e.Blocks = append(e.Blocks, uint32(off+at)*2654435761+uint32(part))
	}
	return e
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Inline returns an inline extent.
func (p *Probe) Inline(part int, off int64, body []byte) metastore.Extent {
	return metastore.Extent{Part: part, Offset: off, Size: int64(len(body)), Blocks: []uint32{crc32.Checksum(body, castagnoli)}, Body: body}
}

// Put commits a blob of one extent, and returns it as stored.
func (p *Probe) Put(account, name string) (metastore.Blob, metastore.Extent) {
	e := p.Extent(0, 0, 100)
	b, err := p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: account, Name: name, Content: p.Content(), Size: 100, CRC64: 7},
		[]metastore.Extent{e}, nil)
	p.OK(err, "commit of %q", name)
	return b, e
}

// Remove removes a blob, and returns the content that has become garbage, if any, and whether there
// was a blob.
func Remove(ctx context.Context, s metastore.Versions, account, name string, precondition metastore.Precondition) (metastore.ContentID, bool, error) {
	r, err := s.RemoveBlob(ctx, metastore.Removal{BlobName: metastore.BlobName{Account: account, Name: name}, Precondition: precondition})
	return r.Garbage, r.Existed, err
}

// Begin begins an upload with this id.
func (p *Probe) Begin(id, account, name string) metastore.Upload {
	return Value(p.Store.BeginUpload(p.Ctx, metastore.Upload{ID: id, Account: account, Name: name, Content: p.Content(), PartSize: 100}))
}

// Upload returns an upload.
func (p *Probe) Upload(id string) metastore.Upload {
	return Value(p.Store.Upload(p.Ctx, id))
}

// Complete completes an upload at its present revision.
func (p *Probe) Complete(id string) metastore.Upload {
	u := p.Upload(id)
	u = Value(p.Store.CompleteUpload(p.Ctx, id, u.Revision, u.Bytes, 42, nil))
	return u
}

// Garbage returns the contents that are garbage, sorted by id.
func (p *Probe) Garbage() []metastore.ContentID {
	list := Value(p.Store.GarbageContents(p.Ctx, 0, metastore.GarbageContent{}, 1_000_000))
	ids := make([]metastore.ContentID, len(list))
	for i, g := range list {
		ids[i] = g.Content
	}
	slices.SortFunc(ids, func(a, b metastore.ContentID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// MiB is a mebibyte: the length of every block but the last of an extent.
const MiB = 1 << 20

// Session creates a session of this many chunksets that expires after an hour.
func (p *Probe) Session(id string, left int64) ledger.Session {
	return Value(p.Store.CreateSession(p.Ctx, ledger.Session{ID: id, Total: left, Left: left, Expires: p.Clock.Now().Add(time.Hour)}, nil))
}

// ChannelLife is the time until a channel expires that Channel opens.
const ChannelLife = 1000 * time.Hour

// Channel opens a channel with a new number.
func (p *Probe) Channel(id, sender string, deposit int64) ledger.Channel {
	c := Value(p.Store.OpenChannel(p.Ctx, ledger.Channel{
		ID: id, PaymentChannelID: p.Next(), Sender: sender, Receiver: "receiver", Asset: "asset",
		Deposit: deposit, Expires: p.Clock.Now().Add(ChannelLife),
	}, nil))
	return c
}

// NewKey creates a key in a new group.
func (p *Probe) NewKey(id string) keys.Key {
	k, err := p.Store.CreateKey(p.Ctx, keys.Key{ID: id, Group: "group of " + id}, nil, nil)
	p.OK(err, "create key %q", id)
	return k
}

// Idem returns an idempotency key, with the same hash each time.
func Idem(scope, key string) *database.Idempotency {
	return &database.Idempotency{Scope: scope, Key: key, Hash: [32]byte{1, 2, 3}}
}
