package bytestore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/memory"
)

// A caller stores an object under a fresh key, reads a range of it, and deletes it.
func Example() {
	ctx := context.Background()
	var store bytestore.Store = memory.New() // or localfs, s3, cached

	key := bytestore.NewKey(time.Now())
	body := "immutable bytes"
	if err := store.Put(ctx, key, strings.NewReader(body), int64(len(body))); err != nil {
		log.Fatal(err)
	}
	err := store.Put(ctx, key, strings.NewReader("others"), bytestore.UnknownSize)
	fmt.Println("replaced:", !errors.Is(err, bytestore.ErrExists))

	r, err := store.Open(ctx, key, 10, 5)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, 5) // at most 5 bytes may be read
	if _, err := bytestore.ReadFull(r, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", b)

	if err := store.Delete(ctx, key); err != nil {
		log.Fatal(err)
	}
	_, err = store.Open(ctx, key, 0, 0)
	fmt.Println("deleted:", errors.Is(err, bytestore.ErrNotFound))
	// Output:
	// replaced: false
	// bytes
	// deleted: true
}

// Delete removes as much as it can. Undeleted holds what is left.
func ExampleUndeletedOf() {
	keys := []bytestore.Key{"abc", "def"}
	err := bytestore.DeleteEach(keys, func(key bytestore.Key) error {
		if key == "def" {
			return io.ErrClosedPipe
		}
		return nil
	})
	for key, reason := range bytestore.UndeletedOf(keys, err) {
		fmt.Println(key, reason)
	}
	// Output: def io: read/write on closed pipe
}
