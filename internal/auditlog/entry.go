package auditlog

import (
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Action is the kind of an access to a blob.
type Action string

// The actions.
const (
	Read   Action = "read"   // by GET and HEAD
	Write  Action = "write"  // by a PUT, a form or a completed upload
	Delete Action = "delete" // of one blob; a deletion of many is an entry for each
	Copy   Action = "copy"
	Move   Action = "move"
	Tag    Action = "tag" // a change of a blob's tags
)

// Access is an access to a blob.
type Access struct {
	Action Action // "": none
	// Account and Name are the blob's, and the destination's of a copy or a move.
	Account, Name string
	// FromAccount and FromName are the source's of a copy or a move.
	FromAccount, FromName string
	// Version is the version's id that was read, deleted or copied; "": the current one was.
	Version string
	// Bytes is the size of the blob that was stored, or how many bytes were sent.
	Bytes int64
}

// Entry is an access with its outcome.
type Entry struct {
	Access
	Time    time.Time
	Status  int    // of the response; of a blob among many, the status that it would have alone
	Error   string // the error's code; "": none
	Key     string // the API key's id; "": none
	Client  string // the client's address
	Request string // the request's id
}

// append appends an entry's line, a JSON object. Bytes that are not UTF-8 become U+FFFD.
func (e *Entry) append(b []byte) []byte {
	b = append(b, `{"time":"`...)
	b = e.Time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	b = append(b, '"')
	b = appendMember(b, "action", string(e.Action))
	b = appendMember(b, "account", e.Account)
	b = appendMember(b, "name", e.Name)
	if e.FromAccount != "" {
		b = appendMember(b, "fromAccount", e.FromAccount)
		b = appendMember(b, "fromName", e.FromName)
	}
	if e.Version != "" {
		b = appendMember(b, "version", e.Version)
	}
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, e.Bytes, 10)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(e.Status), 10)
	for _, m := range [...][2]string{{"error", e.Error}, {"key", e.Key}, {"client", e.Client}, {"request", e.Request}} {
		if m[1] != "" {
			b = appendMember(b, m[0], m[1])
		}
	}
	return append(b, '}', '\n')
}

func appendMember(b []byte, name, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	b, _ = jsontext.AppendQuote(b, value) // its only error is invalid UTF-8, which it replaces
	return b
}
