package localfs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/localfs"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "localfs-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := localfs.Open(dir, localfs.Options{Reserve: -1})
	if err != nil {
		log.Fatal(err)
	}
	name := bytestore.NewName(time.Now())
	if err := store.Put(ctx, name, strings.NewReader("durable bytes"), 13); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	// An object that Put acknowledged is there when the folder is opened again.
	if store, err = localfs.Open(dir, localfs.Options{Reserve: -1}); err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	r, err := store.Open(ctx, name, 8, 5)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, 5)
	if _, err := bytestore.ReadFull(r, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", b)
	// Output: bytes
}
