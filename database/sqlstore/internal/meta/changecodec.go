package meta

import (
	"encoding/binary"
	"errors"
	"time"

	"sluice/metastore"
)

// packedChange is a change as the table changes has it. Its texts are parts of its row.
type packedChange struct {
	kind                 metastore.ChangeKind
	at                   int64 // microseconds
	owner, account, name []byte
	version              metastore.Version
	size                 int64
	crc64                uint64
	contentType          []byte
	expires              int64 // microseconds, if hasExpiry
	hasExpiry            bool
}

// expiryMark is set in the kind's byte if the change has an expiry.
const expiryMark = 0x80

// appendChange appends the encoding of a change to b, under a name: version, kind, time, owner,
// account, name, size, CRC-64, type and, if there is one, the expiry.
func appendChange(p []byte, kind metastore.ChangeKind, at time.Time, n metastore.BlobName, b *metastore.Blob) []byte {
	first := byte(kind)
	if !b.Expires.IsZero() {
		first |= expiryMark
	}
	version := metastore.VersionOf(b)
	p = binary.AppendVarint(append(append(p, version[:]...), first), at.UnixMicro())
	p = appendText(appendText(appendText(p, b.Owner), n.Account), n.Name)
	p = binary.AppendUvarint(p, uint64(b.Size))
	p = appendText(binary.BigEndian.AppendUint64(p, b.CRC64), b.ContentType)
	if !b.Expires.IsZero() {
		p = binary.AppendVarint(p, b.Expires.UnixMicro())
	}
	return p
}

func appendText(p []byte, s string) []byte {
	return append(binary.AppendUvarint(p, uint64(len(s))), s...)
}

var errChange = errors.New("a change is damaged")

// unpackChange is the inverse of appendChange.
func unpackChange(p []byte) (c packedChange, err error) {
	d := changeReader{rest: p}
	copy(c.version[:], d.take(len(c.version)))
	first := d.take(1)
	if d.failed {
		return c, errChange
	}
	c.kind, c.hasExpiry = metastore.ChangeKind(first[0]&^expiryMark), first[0]&expiryMark != 0
	c.at = d.varint()
	c.owner, c.account, c.name = d.text(), d.text(), d.text()
	c.size = int64(d.uvarint())
	if sum := d.take(8); sum != nil {
		c.crc64 = binary.BigEndian.Uint64(sum)
	}
	c.contentType = d.text()
	if c.hasExpiry {
		c.expires = d.varint()
	}
	if d.failed || len(d.rest) > 0 || !c.kind.IsValid() || c.size < 0 {
		return packedChange{}, errChange
	}
	return c, nil
}

// change returns the change with a position.
func (c *packedChange) change(p metastore.FeedPosition) metastore.Change {
	out := metastore.Change{
		Position: p, Time: time.UnixMicro(c.at).UTC(), Kind: c.kind, Account: string(c.account), Name: string(c.name),
		Version: c.version, Size: c.size, CRC64: c.crc64, ContentType: string(c.contentType),
	}
	if c.hasExpiry {
		out.Expires = time.UnixMicro(c.expires).UTC()
	}
	return out
}

// changeReader reads a change's parts. Once it has failed, its results are zero.
type changeReader struct {
	rest   []byte
	failed bool
}

func (d *changeReader) take(n int) []byte {
	if d.failed || n > len(d.rest) {
		d.failed = true
		return nil
	}
	p := d.rest[:n:n]
	d.rest = d.rest[n:]
	return p
}

func (d *changeReader) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if d.take(max(n, 0)); n <= 0 || d.failed {
		d.failed = true
		return 0
	}
	return v
}

func (d *changeReader) varint() int64 {
	v, n := binary.Varint(d.rest)
	if d.take(max(n, 0)); n <= 0 || d.failed {
		d.failed = true
		return 0
	}
	return v
}

func (d *changeReader) text() []byte {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.failed = true
		return nil
	}
	return d.take(int(n))
}
