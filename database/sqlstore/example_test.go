package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/metastore"
)

// Commit a small blob's metadata and its bytes, an inline extent, and read both back.
func Example() {
	dir, err := os.MkdirTemp("", "sqlstore")
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := errors.Join(store.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}()

	ctx := context.Background()
	body := []byte("hello, world")
	blob := metastore.Blob{
		Account: "alice", Name: "greeting.txt", ContentType: "text/plain",
		Content: metastore.NewContentID(time.Now()), Size: int64(len(body)),
	}
	extents := []metastore.Extent{{Size: int64(len(body)), Body: body}}
	// The precondition runs in the commit's transaction: the blob must be new.
	absent := func(current *metastore.Blob) error {
		if current != nil {
			return database.ErrExists
		}
		return nil
	}
	if _, err := store.CommitBlob(ctx, blob, extents, absent); err != nil {
		log.Fatal(err)
	}

	found, err := store.Blob(ctx, "alice", "greeting.txt")
	if err != nil {
		log.Fatal(err)
	}
	read, err := store.Extents(ctx, found.Content, metastore.Position{}, 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %d bytes of %s: %q\n", found.Name, found.Size, found.ContentType, read[0].Body)

	_, err = store.CommitBlob(ctx, blob, extents, absent)
	fmt.Println("exists:", errors.Is(err, database.ErrExists))
	// Output:
	// greeting.txt: 12 bytes of text/plain: "hello, world"
	// exists: true
}
