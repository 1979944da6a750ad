package blob

import (
	"context"
	"fmt"
	"io"
)

// source is a Body with a content's bytes. A goroutine reads the content while the Body is read.
type source struct {
	*io.PipeReader
	cancel context.CancelFunc
	ended  chan struct{}
}

// Body returns a Body with the content's bytes in a range, which must lie within the content. They
// are checked like those that WriteRange writes. If they cannot be read, for example because they
// are damaged or the content was cut, its error is ErrSource, which wraps the reason; what was read
// before it is no whole body. The caller must Close the result, and then the Content.
func (c *Content) Body(ctx context.Context, r Range) io.ReadCloser {
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	b := &source{out, cancel, make(chan struct{})}
	go func() {
		defer close(b.ended)
		_, err := c.WriteRange(ctx, in, r.Off, r.N)
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrSource, err)
		}
		in.CloseWithError(err) // nil is the end
	}()
	return b
}

// Close ends the reading, and returns when the content is no longer used. It is idempotent.
func (b *source) Close() error {
	b.cancel()
	err := b.PipeReader.Close()
	<-b.ended
	return err
}
