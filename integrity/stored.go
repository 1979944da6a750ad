package integrity

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"sluice/bytestore"
	"sluice/metastore"
)

// storedCheck compares an extent's blocks with their checksums, all of those in a range, also after
// it has found one that is damaged.
type storedCheck struct {
	open bytestore.OpenFunc
	step func() error // is called before each block is read; an error ends the check
	e    *metastore.Extent

	bad    uint64 // bit i is set if block i is damaged
	reason error  // the last one's
	read   int64  // bytes
}

// all checks all blocks. An error is not about the bytes.
func (c *storedCheck) all(ctx context.Context) error {
	return c.blocks(ctx, 0, (c.e.Size-1)/BlockSize)
}

// blocks checks blocks first to last. An error is not about the bytes.
func (c *storedCheck) blocks(ctx context.Context, first, last int64) error {
	if err := CheckExtent(c.e); err != nil {
		c.mark(0, (c.e.Size-1)/BlockSize, err)
		return nil
	}
	if c.e.Object == "" {
		c.read += int64(len(c.e.Body))
		if c.e.Body == nil {
			c.mark(0, 0, errors.New("the body is missing"))
		} else if int64(len(c.e.Body)) != c.e.Size || Sum(c.e.Body) != c.e.Blocks[0] {
			c.mark(0, 0, errors.New("the checksum differs"))
		}
		return nil
	}
	single := false // the object is too short for the range, so each block is opened alone
	for block := first; block <= last; {
		end := last
		if single {
			end = block
		}
		next, err := c.run(ctx, block, end)
		switch {
		case err == nil:
			block = next
		case !IsDamage(err):
			return err
		case errors.Is(err, bytestore.ErrNotFound):
			c.mark(first, last, errors.New("the object is missing"))
			return nil
		case errors.Is(err, bytestore.ErrTruncated) && !single && next == block:
			single = true
		default:
			c.mark(next, next, err)
			block = next + 1
		}
	}
	return nil
}

// mark records that blocks are damaged.
func (c *storedCheck) mark(first, last int64, reason error) {
	for block := first; block <= last && block < MaxBlocks; block++ {
		c.bad |= 1 << block
	}
	c.reason = reason
}

// run checks blocks as long as they can be read, and returns the one that could not, with the
// error.
func (c *storedCheck) run(ctx context.Context, first, last int64) (next int64, err error) {
	start := first * BlockSize
	if err := c.step(); err != nil {
		return first, err
	}
	r, err := c.open(ctx, bytestore.Name(c.e.Object), start, min((last+1)*BlockSize, c.e.Size)-start)
	if err != nil {
		return first, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	buf := buffers.Get().(*[BlockSize]byte)
	defer buffers.Put(buf)
	for block := first; block <= last; block++ {
		if block > first {
			if err := c.step(); err != nil {
				return block, err
			}
		}
		b := buf[:min(BlockSize, c.e.Size-block*BlockSize)]
		if _, err := bytestore.ReadFull(r, b); err != nil {
			return block, err
		}
		c.read += int64(len(b))
		if Sum(b) != c.e.Blocks[block] {
			c.mark(block, block, errors.New("the checksum differs"))
		}
	}
	return last + 1, nil
}

// damage returns the damage that was found.
func (c *storedCheck) damage(id metastore.ExtentID) metastore.Damage {
	first := bits.TrailingZeros64(c.bad)
	return metastore.Damage{
		ExtentID: id, Size: c.e.Size, Object: c.e.Object, Bad: c.bad,
		Reason: fmt.Sprintf("%d of %d blocks, the first is block %d: %v", bits.OnesCount64(c.bad), (c.e.Size+BlockSize-1)/BlockSize, first, c.reason),
	}
}
