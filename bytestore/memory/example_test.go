package memory_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"sluice/bytestore"
	"sluice/bytestore/memory"
)

func Example() {
	ctx := context.Background()
	store := memory.New()
	for _, name := range []bytestore.Name{"second", "first"} {
		if err := store.Put(ctx, name, strings.NewReader("the content"), 11); err != nil {
			log.Fatal(err)
		}
	}
	err := store.List(ctx, "", func(o bytestore.Object) error {
		fmt.Println(o.Name, o.Size)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// first 11
	// second 11
}
