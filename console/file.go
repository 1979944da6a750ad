package console

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"sync"
)

// types maps the files' extensions to their content types.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".mjs":  "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// file is a response's body and headers.
type file struct {
	content     []byte
	contentType string
	etag        string // without quotes
	zipped      func() []byte
}

func newFile(name string, content []byte) (*file, error) {
	contentType := types[path.Ext(name)]
	if contentType == "" {
		return nil, fmt.Errorf("%s has no content type", name)
	}
	sum := sha256.Sum256(content)
	return &file{content: content, contentType: contentType, etag: hex.EncodeToString(sum[:16]), zipped: sync.OnceValue(func() []byte { return zip(content) })}, nil
}

// zip returns the compressed content.
func zip(content []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(content) // a Buffer returns no errors
	_ = z.Close()
	return out.Bytes()
}
