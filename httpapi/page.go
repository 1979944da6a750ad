package httpapi

// pageBytes bounds the texts of a page, with metastore.EntryCharge for each entry. In JSON they are at
// most twice as long, because names have no control characters.
const pageBytes = 512 << 10

// pageOf returns the query of a list, and its limit.
func pageOf(x *exchange) (query, int, error) {
	q, err := readQuery(x.r)
	if err != nil {
		return q, 0, err
	}
	limit, err := q.limit()
	return q, limit, err
}

// cutPage returns the first items of a list that was read up to one more than limit, and if there is
// one more the id of the last of them, after which the next page begins.
func cutPage[T any](items []T, limit int, id func(T) string) (page []T, next string) {
	if len(items) <= limit {
		return items, ""
	}
	return items[:limit], id(items[limit-1])
}

// nextOf returns the id of the last item of a page if there are more.
func nextOf[T any](page []T, more bool, id func(T) string) string {
	if !more {
		return ""
	}
	return id(page[len(page)-1])
}
