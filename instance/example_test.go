package instance_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"sluice/backup"
	"sluice/bytestore/memory"
	"sluice/instance"
	"sluice/storage"
)

// Copy an instance from one data folder to another by a backup. With DSNs in the target it would be
// in PostgreSQL and an object store.
func ExampleRestore() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "sluice-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source := instance.Location{Data: filepath.Join(dir, "source")}
	target := instance.Location{Data: filepath.Join(dir, "target")}
	createInstance(source)

	repo := &backup.Repository{Bytes: memory.New()}
	made, err := instance.Backup(ctx, source, repo, instance.BackupOptions{})
	if err != nil {
		log.Fatal(err)
	}
	options := instance.RestoreOptions{
		Progress: func(p instance.Progress) {
			if p.Ended {
				fmt.Println("restored the", p.Phase)
			}
		},
	}
	result, err := instance.Restore(ctx, repo, made.Manifest, target, options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d objects, generation %d\n", result.Objects, result.Generation)

	// After an interruption the same call resumes. Here nothing is left to do.
	again, err := instance.Restore(ctx, repo, made.Manifest, target, options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("existed:", again.Existed && again.ID == result.ID)
	// Output:
	// restored the bytes
	// restored the metadata
	// 0 objects, generation 2
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
