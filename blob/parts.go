package blob

import (
	"context"
	"fmt"

	"sluice/metastore"
)

// PartRanges returns where up to limit parts of a blob's content are, those with an Index greater
// than after, and how many there are in all. To start with the first part, pass -1 as after. A blob
// that was not uploaded in parts has one, with Index 0. Unless the caller has the content pinned,
// there may be none, because it has been freed.
func (s *Service) PartRanges(ctx context.Context, b metastore.Blob, after, limit int) (list []metastore.PartRange, total int, err error) {
	if b.PartSize == metastore.UnevenParts {
		return s.meta.PartRanges(ctx, b.Content, after, limit)
	}
	total = evenParts(b)
	for i := max(0, after+1); i < total && len(list) < limit; i++ {
		start := int64(i) * b.PartSize
		end := b.Size
		if i < total-1 {
			end = start + b.PartSize
		}
		list = append(list, metastore.PartRange{Index: i, Start: start, Size: end - start})
	}
	return list, total, nil
}

// evenParts returns how many parts a blob has that are not uneven.
func evenParts(b metastore.Blob) int {
	if b.PartSize == 0 || b.Size == 0 {
		return 1
	}
	return int((b.Size + b.PartSize - 1) / b.PartSize)
}

// PartRange returns where one part is in a blob's content, and how many parts there are. It returns
// ErrPartIndex if there is no part with this index. PartRanges says which parts a blob has.
func (s *Service) PartRange(ctx context.Context, b metastore.Blob, index int) (part metastore.PartRange, total int, err error) {
	list, total, err := s.PartRanges(ctx, b, max(index, 0)-1, 1)
	if err == nil && (len(list) == 0 || list[0].Index != index) {
		err = fmt.Errorf("%w: the blob has no part %d", ErrPartIndex, index)
	}
	if err != nil {
		return metastore.PartRange{}, 0, err
	}
	return list[0], total, nil
}
