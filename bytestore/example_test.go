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

// A caller stores an object under a fresh name, reads a range of it, and deletes it.
func Example() {
	ctx := context.Background()
	var store bytestore.Store = memory.New() // or localfs, s3, cached

	name := bytestore.NewName(time.Now())
	body := "immutable bytes"
	if err := store.Put(ctx, name, strings.NewReader(body), int64(len(body))); err != nil {
		log.Fatal(err)
	}
	err := store.Put(ctx, name, strings.NewReader("different"), bytestore.UnknownSize)
	fmt.Println("replaced:", !errors.Is(err, bytestore.ErrExists))

	r, err := store.Open(ctx, name, 10, 5)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, 5) // at most 5 bytes may be read
	if _, err := bytestore.ReadFull(r, b); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", b)

	if err := store.Delete(ctx, name); err != nil {
		log.Fatal(err)
	}
	_, err = store.Open(ctx, name, 0, 0)
	fmt.Println("deleted:", errors.Is(err, bytestore.ErrNotFound))
	// Output:
	// replaced: false
	// bytes
	// deleted: true
}

// Delete removes as much as it can. Undeleted names the objects that are left.
func ExampleUndeletedOf() {
	names := []bytestore.Name{"abc", "def"}
	err := bytestore.DeleteEach(names, func(name bytestore.Name) error {
		if name == "def" {
			return io.ErrClosedPipe
		}
		return nil
	})
	for name, reason := range bytestore.UndeletedOf(names, err) {
		fmt.Println(name, reason)
	}
	// Output: def io: read/write on closed pipe
}
