package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"sluice/checksum"
	"sluice/wire"
)

// PutObject stores the content of a blob from this or another service. The bytes pass through this
// process. The new blob has the options' properties only.
//
// A blob that does not fit into a part is read in parallel ranges. Each is kept in memory until it
// was sent. With PutOptions.StateFile, in a folder that exists, it can be resumed like a file: see
// PutFile. A later call with the same state file neither reads nor sends the parts that the server
// has. The server compares the whole with the source's ETag before the blob is visible; if it
// differs, the upload begins again, once.
//
// PutObject returns ErrChanged if the source is replaced during the call, and ErrBusy if another
// call with the same state file is in progress.
func (c *Client) PutObject(ctx context.Context, account, name string, from *Object, o PutOptions) (Blob, error) {
	if err := o.check(); err != nil {
		return Blob{}, err
	}
	size, etag := from.Size(), from.blob.ETag
	if _, _, known := checksum.ParseETag(etag); size <= o.partSize(size) || !known {
		o.Size = size
		return c.putStream(ctx, account, name, from, &o)
	}
	o.PartSize = o.partSize(size)
	if from.source.options.Payment != nil { // so that no chunkset is charged twice
		o.PartSize = min((o.PartSize+wire.ChunksetSize-1)/wire.ChunksetSize, maxPartSize/wire.ChunksetSize) * wire.ChunksetSize
	}
	p := newProgress(o.Progress, size)
	defer p.end()
	u := &fileUpload{c: c, account: account, name: name, size: size, modified: from.blob.LastModified, etag: etag, options: &o, progress: p}
	u.send = func(ctx context.Context, up *upload, present map[int]int64) (Blob, error) {
		return up.sendObject(ctx, from, present)
	}
	if o.StateFile != "" {
		if err := u.openState(""); err != nil {
			return Blob{}, fmt.Errorf("client: put an object: %w", stateError(err))
		}
	}
	b, err := u.run(ctx)
	return b, errors.Join(err, u.closeState())
}

// sendObject sends the parts that the server does not have, by index, and completes the upload with
// the blob's checksum.
func (u *upload) sendObject(ctx context.Context, from *Object, present map[int]int64) (Blob, error) {
	size := from.Size()
	_, crc, known := checksum.ParseETag(from.blob.ETag)
	n := u.parts(size)
	if !known || n > maxParts {
		return Blob{}, tooLarge(u.partSize)
	}
	var missing []int
	for i := range n {
		if !u.has(present, i, size) {
			missing = append(missing, i)
		}
	}
	free := make(chan []byte, u.options.concurrency())
	err := parallel(ctx, u.options.concurrency(), missing, func(ctx context.Context, i int) error {
		var buffer []byte
		select {
		case buffer = <-free:
		default:
			buffer = make([]byte, u.partSize)
		}
		part := buffer[:u.partLength(i, size)]
		if _, err := from.readFull(ctx, part, int64(i)*u.partSize); err != nil { // the whole is verified
			return err
		}
		s, err := u.sendPart(ctx, i, bytes.NewReader(part), 0, int64(len(part)))
		if s.released {
			free <- buffer
		}
		return err
	})
	if err != nil {
		return Blob{}, err
	}
	return u.complete(ctx, size, crc)
}
