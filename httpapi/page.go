package httpapi

import "net/http"

// pageOf returns a list's query, and its limit, when a page of that size may be made.
func pageOf(x *call) (query, int, error) {
	q, err := readQuery(x.Request)
	if err != nil {
		return q, 0, err
	}
	limit, err := q.limit()
	if err != nil {
		return q, 0, err
	}
	return q, limit, x.HoldPage(limit)
}

// writePage sends a page with this number of entries. They count against the caller's request rate.
func writePage(x *call, v any, entries int) error {
	x.SpendPage(entries)
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
