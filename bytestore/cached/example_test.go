package cached_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/cached"
	"sluice/bytestore/memory"
)

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "cached-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	remote := memory.New() // in production a store such as s3
	store, err := cached.Open(remote, dir, cached.Options{Size: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	name := bytestore.NewName(time.Now())
	if err := store.Put(ctx, name, strings.NewReader("read more than once"), 19); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		r, err := store.Open(ctx, name, 0, 19)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := bytestore.ReadFull(r, make([]byte, 19)); err != nil {
			log.Fatal(err)
		}
		r.Close()
	}
	stats := store.Stats()
	fmt.Println("fetched:", stats.Fetches, "hits:", stats.Hits)
	// Output: fetched: 1 hits: 2
}
