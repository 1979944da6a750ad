package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// putStream stores a stream. It reads each part into memory.
func (c *Client) putStream(ctx context.Context, account, name string, r io.Reader, o *PutOptions) (Blob, error) {
	partSize := o.partSize(o.Size)
	first, err := readPart(r, nil, partSize)
	if err != nil {
		return Blob{}, fmt.Errorf("client: put a blob: the source cannot be read: %w", err)
	}
	if int64(len(first)) < partSize { // the stream's end
		p := startProgress(o.Progress, int64(len(first)))
		defer p.end()
		return c.putWhole(ctx, account, name, bytes.NewReader(first), int64(len(first)), o, p)
	}
	p := startProgress(o.Progress, -1)
	defer p.end()
	u, err := c.beginUpload(ctx, account, name, partSize, o, p)
	if err != nil {
		return Blob{}, err
	}
	size, crc, err := u.sendStream(ctx, first, r)
	var b Blob
	if err == nil {
		p.setTotal(size)
		b, err = u.complete(ctx, size, crc)
	}
	if err != nil {
		u.abort(ctx)
	}
	return b, err
}

// sendStream sends a stream's parts; the first was read already. It returns the total size and CRC.
// While a part is read, earlier ones are sent.
func (u *upload) sendStream(ctx context.Context, first []byte, r io.Reader) (size int64, crc uint64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &partStream{u: u, cancel: cancel, free: make(chan []byte, u.options.concurrency())}
	for range cap(s.free) - 1 { // the first part has a buffer
		s.free <- nil
	}
	for part := first; len(part) > 0; part = s.next(ctx, r) {
		if len(s.crcs) == maxParts || size+int64(len(part)) > maxBlobSize {
			cancel(tooLarge(u.partSize))
			break
		}
		size += int64(len(part))
		s.send(ctx, part)
		if int64(len(part)) < u.partSize { // the last one
			break
		}
	}
	s.sent.Wait()
	return size, u.combine(s.crcs, size), context.Cause(ctx)
}

// partStream sends a stream's parts concurrently.
type partStream struct {
	u      *upload
	cancel context.CancelCauseFunc // ends the upload with an error
	free   chan []byte             // buffers, nil if not allocated yet
	sent   sync.WaitGroup

	mu   sync.Mutex
	crcs []uint64 // by part that was begun
}

// send begins to send the next part. Its buffer is free when it was sent.
func (s *partStream) send(ctx context.Context, part []byte) {
	s.mu.Lock()
	index := len(s.crcs)
	s.crcs = append(s.crcs, 0)
	s.mu.Unlock()
	s.sent.Go(func() {
		sent, err := s.u.sendPart(ctx, index, bytes.NewReader(part), 0, int64(len(part)))
		if err != nil {
			s.cancel(err)
		}
		s.mu.Lock()
		s.crcs[index] = sent.crc
		s.mu.Unlock()
		if sent.released {
			s.free <- part
		} else {
			s.free <- nil // it is allocated again
		}
	})
}

// next reads the next part into a free buffer. It returns an empty one at the end of r, after an
// error, and when ctx has ended.
func (s *partStream) next(ctx context.Context, r io.Reader) []byte {
	select {
	case <-ctx.Done():
		return nil
	case buffer := <-s.free:
		part, err := readPart(r, buffer, s.u.partSize)
		if err != nil {
			s.cancel(fmt.Errorf("client: put a blob: the source cannot be read: %w", err))
		}
		return part
	}
}

// readPart reads up to partSize bytes into buffer, which it allocates as needed. It returns fewer
// bytes only at the end of r.
func readPart(r io.Reader, buffer []byte, partSize int64) ([]byte, error) {
	buffer = buffer[:0]
	for int64(len(buffer)) < partSize {
		if len(buffer) == cap(buffer) {
			larger := make([]byte, len(buffer), min(partSize, max(bufferSize, 2*int64(cap(buffer)))))
			copy(larger, buffer)
			buffer = larger
		}
		n, err := r.Read(buffer[len(buffer):min(int64(cap(buffer)), partSize)])
		buffer = buffer[:len(buffer)+n]
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return buffer, nil
}
