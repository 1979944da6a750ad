package instance

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"

	"sluice/bytestore"
	"sluice/test/testenv"
)

type damagedStore struct {
	bytestore.Store
	object bytestore.Object
	how    string // flipped, cut or missing
}

func (s damagedStore) Open(ctx context.Context, name bytestore.Name, off, n int64) (io.ReadCloser, error) {
	from, err := s.Store.Open(ctx, name, off, n)
	if name != s.object.Name || err != nil {
		return from, err
	}
	switch s.how {
	case "missing":
		return nil, bytestore.ErrNotFound
	case "cut":
		return nil, bytestore.ErrTruncated
	}
	content, err := io.ReadAll(io.LimitReader(from, n))
	if err != nil {
		return nil, err
	}
	at := len(content) / 2
	if sum := bytes.Index(content, []byte(`"sha256": "`)); sum >= 0 {
		at = sum + len(`"sha256": "`) // in a manifest, which remains one
	}
	if len(content) > 0 {
		content[at] ^= 1
	}
	return io.NopCloser(bytes.NewReader(content)), from.Close()
}

func (s damagedStore) List(ctx context.Context, after bytestore.Name, fn func(bytestore.Object) error) error {
	return s.Store.List(ctx, after, func(o bytestore.Object) error {
		if o.Name == s.object.Name && s.how == "missing" {
			return nil
		}
		if o.Name == s.object.Name && s.how == "cut" {
			o.Size--
		}
		return fn(o)
	})
}

// flipMiddle changes a byte in a file.
func flipMiddle(t *testing.T, file string) {
	t.Helper()
	content := testenv.Must(os.ReadFile(file))(t)
	content[len(content)/2] ^= 1
	testenv.OK(t, os.WriteFile(file, content, 0o600))
}
