package httpapi

import "net/http"

// The bounds on pages of lists.
const (
	// pageBytes bounds a page's texts, with database.EntryCharge for each entry. In JSON they are
	// at most twice as long, because names have no control characters.
	pageBytes = 512 << 10
	// pageMemory is what a page takes while it is made: its rows, the values that are encoded, and
	// their encoding, which grows. entryMemory is the same for a page with few entries.
	pageMemory  = 6 * pageBytes
	entryMemory = 32 << 10
	// entriesOfRequest is how many entries cost their caller as much as a request.
	entriesOfRequest = 100
)

// pageOf returns a list's query, and its limit.
func pageOf(x *exchange) (query, int, error) {
	q, err := readQuery(x.r)
	if err != nil {
		return q, 0, err
	}
	limit, err := q.limit()
	return q, limit, err
}

// holdPage waits until a page of at most limit entries may be made; see holdReply.
func (x *exchange) holdPage(limit int) error {
	return x.holdReply(min(pageMemory, int64(limit)*entryMemory))
}

// writePage sends a page with this number of entries. They count against the caller's request rate:
// a page of many entries costs as much as several requests.
func writePage(x *exchange, v any, entries int) error {
	x.allowance.Spend(int64(max(0, entries-1) / entriesOfRequest))
	return writeJSON(x, http.StatusOK, v)
}

// cutPage returns the first items from a list that was read up to one more than limit, and if there
// is one more, the id of the last, after which the next page begins.
func cutPage[T any](items []T, limit int, id func(T) string) (page []T, next string) {
	if len(items) <= limit {
		return items, ""
	}
	return items[:limit], id(items[limit-1])
}

// nextOf returns the id of a page's last item if there are more.
func nextOf[T any](page []T, more bool, id func(T) string) string {
	if !more {
		return ""
	}
	return id(page[len(page)-1])
}
