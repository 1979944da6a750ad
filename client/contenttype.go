package client

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
)

// SniffedBytes is how many bytes ContentType considers at most.
const SniffedBytes = 512

// ContentType guesses a content's type by the ending of its name, or else by its first bytes.
func ContentType(name string, first []byte) string {
	return cmp.Or(mime.TypeByExtension(path.Ext(name)), http.DetectContentType(first))
}

// ContentTypeOf is ContentType for a content. It reads the first bytes.
func ContentTypeOf(name string, content io.ReaderAt) (string, error) {
	first := make([]byte, SniffedBytes)
	n, err := content.ReadAt(first, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return ContentType(name, first[:n]), nil
}
