package transfer

import (
	"io"
	"net/http"
)

func newReader(w http.ResponseWriter, body io.ReadCloser, options Options) *Reader {
	created := &Reader{}
	created.Init(w, body, options)
	return created
}

func newWriter(w http.ResponseWriter, options Options) *Writer {
	created := &Writer{}
	created.Init(w, options)
	return created
}
