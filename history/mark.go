package history

import (
	"fmt"
	"strconv"
	"strings"

	"sluice/bytestore"
	"sluice/database"
)

// markPrefix begins the names of objects that record marks.
const markPrefix = "sluice-mark-"

// record is a mark that is recorded beside the bytes, in an empty object's name.
type record struct {
	generation int64
	mark       database.Mark
}

func (r record) object() bytestore.Name {
	return bytestore.Name(fmt.Sprintf("%s%08x-%016x-%s", markPrefix, r.generation, r.mark.Sequence, r.mark.Nonce))
}

// parseRecord returns the mark that an object with this name records. It returns false for other
// objects.
func parseRecord(object bytestore.Name) (record, bool) {
	rest, ok := strings.CutPrefix(string(object), markPrefix)
	fields := strings.Split(rest, "-")
	if !ok || len(fields) != 3 {
		return record{}, false
	}
	generation, err := strconv.ParseInt(fields[0], 16, 64)
	if err != nil {
		return record{}, false
	}
	sequence, err := strconv.ParseInt(fields[1], 16, 64)
	r := record{generation, database.Mark{Sequence: sequence, Nonce: fields[2]}}
	return r, err == nil && r.object() == object
}
