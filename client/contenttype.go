package client

import (
	"io"

	"sluice/client/folder/tree"
)

// SniffedBytes is how many bytes ContentType considers at most.
const SniffedBytes = tree.SniffedBytes

// ContentType guesses a content's type by the ending of its name, from a table that is the same on
// every machine, or else by its first bytes.
func ContentType(name string, first []byte) string { return tree.ContentType(name, first) }

// ContentTypeOf is ContentType for a content. It reads the first bytes.
func ContentTypeOf(name string, content io.ReaderAt) (string, error) {
	return tree.ContentTypeOf(name, content)
}
