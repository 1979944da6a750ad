package instance_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"sluice/instance"
	"sluice/internal/storage"
)

// Clone an instance from one data folder to another. With DSNs in the target it would be cloned to
// PostgreSQL and an object store.
func ExampleClone() {
	dir, err := os.MkdirTemp("", "sluice-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source := instance.Location{Data: filepath.Join(dir, "source")}
	target := instance.Location{Data: filepath.Join(dir, "target")}
	createInstance(source)

	options := instance.CloneOptions{
		Progress: func(p instance.Progress) {
			if p.Ended {
				fmt.Println("copied the", p.Phase)
			}
		},
	}
	result, err := instance.Clone(context.Background(), source, target, options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d objects\n", result.Objects)

	// After an interruption the same call resumes. Here nothing is left to do.
	again, err := instance.Clone(context.Background(), source, target, options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("existed:", again.Existed && again.ID == result.ID)
	// Output:
	// copied the bytes
	// copied the metadata
	// 0 objects
	// existed: true
}

// createInstance creates an empty instance, as a node's first start does.
func createInstance(l instance.Location) {
	stores, err := storage.Open(context.Background(), l, storage.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := stores.Close(); err != nil {
		log.Fatal(err)
	}
}
