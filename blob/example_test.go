package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/checksum"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/history"
)

// A blob is stored and a range of it is read, with the metadata in SQLite and the bytes in memory.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "blob-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	meta, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer meta.Close()
	store := memory.New()
	if _, err := history.Bind(ctx, meta, store); err != nil { // ensures that they belong together
		log.Fatal(err)
	}
	blobs := blob.New(meta, store, blob.Options{})

	put := blob.PutOptions{Account: "alice", Name: "notes/today.txt", ContentType: "text/plain"}
	stored, err := blobs.Put(ctx, put, strings.NewReader("hello, world"), 12)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(checksum.ETag(stored.Size, stored.CRC64))

	content, err := blobs.Open(ctx, "alice", "notes/today.txt")
	if err != nil {
		log.Fatal(err)
	}
	defer content.Close() // until then the bytes cannot be freed
	var out bytes.Buffer
	if _, err := content.WriteRange(ctx, &out, 7, 5); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.String())

	if err := blobs.Delete(ctx, "alice", "notes/today.txt", nil); err != nil {
		log.Fatal(err)
	}
	_, err = blobs.Open(ctx, "alice", "notes/today.txt")
	fmt.Println(errors.Is(err, database.ErrNotFound))
	// Output:
	// "c-8a61b37c881728cf"
	// world
	// true
}

// A multipart upload's parts become visible together.
func ExampleService_Complete() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "blob-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	meta, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer meta.Close()
	blobs := blob.New(meta, memory.New(), blob.Options{})

	upload, err := blobs.Begin(ctx, blob.BeginOptions{Account: "alice", Name: "large", PartSize: 5})
	if err != nil {
		log.Fatal(err)
	}
	for i, part := range []string{"hello", " worl", "d"} {
		if _, err := blobs.PutPart(ctx, blob.PartOptions{UploadID: upload.ID, Index: i}, strings.NewReader(part), int64(len(part))); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := blobs.Complete(ctx, upload.ID, blob.Totals{}, nil); err != nil {
		log.Fatal(err)
	}
	content, err := blobs.Open(ctx, "alice", "large")
	if err != nil {
		log.Fatal(err)
	}
	defer content.Close()
	fmt.Println(content.Size)
	// Output: 11
}
