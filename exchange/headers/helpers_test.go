package headers

import "sluice/blob"

// spans returns ranges from pairs, each an offset and a number of bytes.
func spans(pairs ...int64) (ranges []blob.Range) {
	for i := 0; i < len(pairs); i += 2 {
		ranges = append(ranges, blob.Range{Off: pairs[i], N: pairs[i+1]})
	}
	return ranges
}
