package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/bytestore"
	"sluice/database"
	"sluice/integrity"
	"sluice/metastore"
)

// CheckRanges returns integrity.ErrCorrupt if it is recorded that stored bytes in one range or more
// are damaged. It costs nothing for a content without recorded damage. That it returns nil does not
// say that the bytes are intact: WriteNext checks them.
func (c *Content) CheckRanges(ctx context.Context, ranges []Range) error {
	list, err := c.s.DamagesOf(ctx, c.Content)
	if err != nil {
		return err
	}
	for i := range list {
		d := &list[i]
		start, err := c.partStart(ctx, d.Part)
		if err != nil {
			return err
		}
		start += d.Offset
		for block := int64(0); block < integrity.MaxBlocks; block++ {
			from, to := start+block*integrity.BlockSize, start+min((block+1)*integrity.BlockSize, d.Size)
			if d.Bad>>block&1 == 1 && touches(ranges, from, to) {
				c.s.counts.damaged.Add(1)
				return fmt.Errorf("%w: bytes %d to %d of content %s, as recorded on %s: %s", integrity.ErrCorrupt, from, to-1, c.Content, d.Since.Format(time.RFC3339), d.Reason)
			}
		}
	}
	return nil
}

// touches reports whether a range has a byte of [from, to).
func touches(ranges []Range, from, to int64) bool {
	for _, r := range ranges {
		if r.Off < to && r.Off+r.N > from {
			return true
		}
	}
	return false
}

// partStart returns a part's offset in the content.
func (c *Content) partStart(ctx context.Context, part int) (int64, error) {
	if c.PartSize != metastore.UnevenParts {
		return int64(part) * c.PartSize, nil
	}
	list, _, err := c.s.meta.PartRanges(ctx, c.Content, part-1, 1)
	if err == nil && (len(list) == 0 || list[0].Index != part) {
		err = fmt.Errorf("%w: content %s has no part %d", integrity.ErrCorrupt, c.Content, part)
	}
	if err != nil {
		return 0, err
	}
	return list[0].Start, nil
}

// replaceObject stores the bytes of a damaged extent as a new object, makes that the extent's, and
// the damaged one garbage. It reports whether it did: another process may have been faster. It is
// the function for integrity.Options.
func (s *Service) replaceObject(ctx context.Context, d metastore.Damage, src io.Reader) (bool, error) {
	if err := s.checkSpace(d.Size); err != nil {
		return false, err
	}
	now := s.meta.Now()
	name := bytestore.NewName(now)
	fresh := metastore.Extent{Size: d.Size, Created: now, Object: string(name)}
	if err := s.bytes.Put(ctx, name, src, d.Size); err != nil {
		return false, err
	}
	retired := metastore.NewContentID(s.meta.Now())
	s.pins.retire(d.Content, retired) // before the old object can be freed
	if err := s.meta.HealExtent(ctx, d, fresh, retired); err != nil {
		if err = s.discard(ctx, []metastore.Extent{fresh}, err); errors.Is(err, database.ErrNotFound) {
			return false, nil
		}
		return false, err
	}
	s.garbageArose()
	return true, nil
}
