package folder_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sluice/client"
	"sluice/client/folder"
)

// A folder is stored. A second run stores only files that have changed.
func ExampleBatch_Upload() {
	s := startService()
	defer s.stop()
	dir, remove := writeFiles(map[string]string{"index.html": "<h1>hello</h1>", "css/main.css": "h1 {}"})
	defer remove()
	ctx := context.Background()
	site := folder.Prefix{Client: s.Client, Account: "team", Name: "site/"}

	done, err := upload(ctx, folder.Dir(dir), site, folder.Options{})
	check(err)
	fmt.Println(done.Copied, "copied,", done.Bytes, "bytes")

	check(os.WriteFile(filepath.Join(dir, "index.html"), []byte("<h1>hello, world</h1>"), 0o600))
	done, err = upload(ctx, folder.Dir(dir), site, folder.Options{})
	check(err)
	fmt.Println(done.Copied, "copied,", done.Unchanged, "unchanged")
	// Output:
	// 2 copied, 19 bytes
	// 1 copied, 1 unchanged
}

// The blobs below a prefix become files. Names that cannot be files are skipped.
func ExampleBatch_Download() {
	s := startService()
	defer s.stop()
	s.store(map[string]string{"site/a": "text", "site/sub/b": "more text", "site/../c": "hostile"})
	dir, remove := writeFiles(nil)
	defer remove()

	site := folder.Prefix{Client: s.Client, Account: "team", Name: "site/"}
	done, err := download(context.Background(), site, folder.Dir(dir), folder.Options{
		Report: func(e folder.Event) {
			if e.Kind == folder.Skipped {
				fmt.Println(e.Source, "was skipped:", e.Err)
			}
		},
	})
	check(err)
	fmt.Println(done.Copied, "copied:", filesOf(dir))
	// Output:
	// team/site/../c was skipped: the name is not a path within a folder
	// 2 copied: [a sub/b]
}

// Blobs are copied from one service to another.
func ExampleBatch_Copy() {
	from, to := startService(), startService()
	defer from.stop()
	defer to.stop()
	from.store(map[string]string{"photos/a.jpg": "A", "photos/b.jpg": "B"})
	cache, remove := writeFiles(nil)
	defer remove()

	done, err := copyBlobs(context.Background(),
		folder.Prefix{Client: from.Client, Account: "team", Name: "photos/"},
		folder.Prefix{Client: to.Client, Account: "archive", Name: "2030/"},
		folder.Options{StateDir: cache})
	check(err)
	fmt.Println(done.Copied, "copied:", to.names("archive"))
	// Output: 2 copied: [2030/a.jpg 2030/b.jpg]
}

// A prefix becomes like a folder: blobs that the folder does not have are deleted.
func ExampleBatch_Sync() {
	s := startService()
	defer s.stop()
	s.store(map[string]string{"site/old.html": "old"})
	dir, remove := writeFiles(map[string]string{"index.html": "new"})
	defer remove()

	site := folder.Prefix{Client: s.Client, Account: "team", Name: "site/"}
	done, err := mirror(context.Background(), folder.Dir(dir), site, syncOptions{Delete: true})
	check(err)
	fmt.Println(done.Copied, "copied,", done.Deleted, "deleted:", s.names("team"))
	// Output: 1 copied, 1 deleted: [site/index.html]
}

// A run's error has an *Error for each file that failed.
func ExampleError() {
	s := startService()
	defer s.stop()
	dir, remove := writeFiles(map[string]string{"good": "text", "bad\x01": "text"})
	defer remove()

	to := folder.Prefix{Client: s.Client, Account: "team"}
	done, err := upload(context.Background(), folder.Dir(dir), to, folder.Options{})
	fmt.Println(done.Copied, "copied,", done.Failed, "failed")
	if failure, ok := errors.AsType[*folder.Error](err); ok {
		fmt.Printf("%q: %v\n", failure.Target.Name, errors.Is(failure, client.ErrInvalid))
	}
	// Output:
	// 1 copied, 1 failed
	// "bad\x01": true
}

// A Batch runs transfers of several folders and single files together.
func ExampleBatch() {
	s := startService()
	defer s.stop()
	dir, remove := writeFiles(map[string]string{"docs/a": "text", "docs/b": "text", "notes": "text"})
	defer remove()
	ctx := context.Background()

	b := folder.NewBatch(folder.Options{})
	docs := folder.Prefix{Client: s.Client, Account: "team", Name: "docs/"}
	check(b.Upload(ctx, folder.Dir(filepath.Join(dir, "docs")), docs))
	b.UploadFile(filepath.Join(dir, "notes"), folder.Item{Client: s.Client, Account: "team", Name: "notes.txt"}, nil)
	done, err := b.Run(ctx)
	check(err)
	check(b.Close())
	fmt.Println(done.Copied, "copied:", s.names("team"))
	// Output: 3 copied: [docs/a docs/b notes.txt]
}
