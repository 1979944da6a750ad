package metastore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"sluice/database/sqlstore"
	"sluice/database/whole"
	"sluice/metastore"
)

// A blob is committed, then replaced on the condition that it is still the same. The replaced
// content becomes garbage.
func Example() {
	dir, err := os.MkdirTemp("", "metastore")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var store whole.Database
	store, err = sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.(*sqlstore.Store).Close()
	ctx := context.Background()

	// A small blob's bytes are stored inline, a large one's in the byte store.
	newBlob := func(body string) (metastore.Blob, []metastore.Extent) {
		return metastore.Blob{
			Account: "alice", Name: "notes.txt", Content: metastore.NewContentID(store.Now()), Size: int64(len(body)),
		}, []metastore.Extent{{Size: int64(len(body)), Blocks: []uint32{0}, Body: []byte(body)}}
	}

	blob, extents := newBlob("first")
	first, err := store.CommitBlob(ctx, blob, extents, nil)
	if err != nil {
		log.Fatal(err)
	}

	unchanged := func(current *metastore.Blob) error {
		if current == nil || current.Content != first.Content {
			return errors.New("the blob was changed")
		}
		return nil
	}
	for _, body := range []string{"second", "third"} {
		blob, extents := newBlob(body)
		_, err := store.CommitBlob(ctx, blob, extents, unchanged)
		fmt.Printf("%s: %v\n", body, err)
	}

	found, err := store.Blob(ctx, "alice", "notes.txt")
	if err != nil {
		log.Fatal(err)
	}
	extents, err = store.Extents(ctx, found.Content, metastore.Position{}, 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("stored: %s\n", extents[0].Body)

	garbage, err := store.GarbageContents(ctx, 0, metastore.GarbageContent{}, 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("garbage:", len(garbage) == 1 && garbage[0].Content == first.Content)

	// Output:
	// second: <nil>
	// third: the blob was changed
	// stored: second
	// garbage: true
}
