package instance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database/whole"
	"sluice/internal/datadir"
	"sluice/storage"
	"sluice/test/testenv"
)

// body returns the content for a blob in the source: nothing, a few KB, or two extents, the
// first with two blocks.
func body(i int) []byte {
	repeated := 12_000 * i
	if i == sourceBlobs-1 {
		repeated = 1_000_000
	}
	return bytes.Repeat([]byte{byte(i), 7, 13}, repeated)
}

const sourceBlobs = 6

// newSource creates a data folder with an instance of some blobs.
func newSource(t *testing.T) string {
	t.Helper()
	data := filepath.Join(testenv.MemoryDir(t), "source")
	s := testenv.Must(storage.Open(t.Context(), storage.Location{Data: data}, storage.Options{}))(t)
	blobs := blob.New(s.Meta, s.Bytes, blob.Options{ExtentSize: 2 << 20})
	var errs []error
	for i := range sourceBlobs {
		_, err := blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: fmt.Sprint("blob", i)}, bytes.NewReader(body(i)), int64(len(body(i))))
		errs = append(errs, err)
	}
	errs = append(errs, s.Meta.SetProperty(t.Context(), "receiver", "0x7a"), s.Close())
	testenv.OK(t, errors.Join(errs...))
	return data
}

// checkSource reads all blobs of newSource.
func checkSource(t *testing.T, meta whole.Database, store bytestore.Store) {
	t.Helper()
	blobs := blob.New(meta, store, blob.Options{})
	for i := range sourceBlobs {
		c := testenv.Must(blobs.Open(t.Context(), "a", fmt.Sprint("blob", i)))(t)
		var got bytes.Buffer
		_, err := c.WriteRange(t.Context(), &got, 0, int64(len(body(i))))
		if c.Close(); err != nil || !bytes.Equal(got.Bytes(), body(i)) {
			t.Errorf("blob %d has other content, of %d bytes, %v", i, got.Len(), err)
		}
	}
	if receiver, err := meta.Property(t.Context(), "receiver"); err != nil || receiver != "0x7a" {
		t.Errorf("the receiver is %q, %v", receiver, err)
	}
}

// endpointAt opens an endpoint until the test ends.
func endpointAt(t *testing.T, data string, existing bool) *storage.Endpoint {
	t.Helper()
	s, err := storage.OpenEndpoint(t.Context(), storage.Location{Data: data}, existing, nil)
	testenv.OK(t, err)
	testenv.AtEnd(t, s.Close)
	return s
}

// objectFiles returns the objects' files in a data folder, largest first.
func objectFiles(t *testing.T, data string) []string {
	t.Helper()
	files := testenv.Must(filepath.Glob(filepath.Join(data, datadir.Bytes, "??", "*")))(t)
	size := func(name string) int64 {
		info := testenv.Must(os.Stat(name))(t)
		return info.Size()
	}
	slices.SortFunc(files, func(a, b string) int { return int(size(b) - size(a)) })
	return files
}
