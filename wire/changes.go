package wire

import "time"

// Change is an entry in the list of changes: a blob or one of its versions was changed.
type Change struct {
	Position    string    `json:"position"` // behind it
	Time        time.Time `json:"time"`
	Kind        string    `json:"kind"` // such as "stored", "replaced" or "deleted"
	Account     string    `json:"account"`
	Name        string    `json:"name"`
	Version     string    `json:"version,omitempty"` // empty: shown only to who may read
	Size        int64     `json:"size"`
	ETag        string    `json:"etag,omitempty"`        // empty: as in a listing, or it is a mark
	ContentType string    `json:"contentType,omitempty"` // the same
	Expires     time.Time `json:"expires,omitzero"`
}

// ChangePage is a page in the list of changes.
type ChangePage struct {
	Changes []Change `json:"changes"`
	Next    string   `json:"next"` // the next page's parameter after
}
