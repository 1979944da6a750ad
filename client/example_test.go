package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/access"
	"sluice/client"
)

// ctx is the examples' context.
var ctx = context.Background()

// A blob is stored, described and read.
func Example() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()

	_, err := c.Put(ctx, "team", "greetings/hello.txt", strings.NewReader("hello, world"), client.PutOptions{ContentType: "text/plain"})
	check(err)
	b, err := c.Head(ctx, "team", "greetings/hello.txt")
	check(err)
	fmt.Println(b.Size, b.ContentType)
	r, err := c.Get(ctx, "team", "greetings/hello.txt", client.GetOptions{})
	check(err)
	text, err := io.ReadAll(r)
	check(err)
	check(r.Close())
	fmt.Println(string(text))
	// Output:
	// 12 text/plain
	// hello, world
}

// Put stores any io.Reader. A stream larger than PutOptions.PartSize is sent in parallel parts.
func ExampleClient_Put() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	stream := io.LimitReader(strings.NewReader(strings.Repeat("0123456789", 1000)), 5000)
	b, err := c.Put(ctx, "team", "numbers", stream, client.PutOptions{PartSize: 1024})
	check(err)
	fmt.Println(b.Size, b.ETag)
	// Output: 5000 "1388-3de1707f64485db1"
}

// A blob is copied from one service to another, or to another name. With a StateFile, a later call
// continues a copy that was interrupted.
func ExampleClient_PutObject() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	dir, remove := exampleFolder()
	defer remove()
	_, err := c.Put(ctx, "team", "film.mp4", bytes.NewReader(make([]byte, 3000)), client.PutOptions{ContentType: "video/mp4"})
	check(err)

	source, err := c.Open(ctx, "team", "film.mp4", client.GetOptions{})
	check(err)
	b, err := c.PutObject(ctx, "archive", "film.mp4", source, client.PutOptions{
		ContentType: source.Blob().ContentType,
		PartSize:    1000,
		StateFile:   filepath.Join(dir, "copy.json"),
	})
	check(err)
	check(source.Close())
	fmt.Println(b.Size, b.ETag == source.Blob().ETag)
	// Output: 3000 true
}

func ExampleClient_PutFile() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	dir, remove := exampleFolder()
	defer remove()
	path := filepath.Join(dir, "film.mp4")
	check(os.WriteFile(path, make([]byte, 3000), 0o600))

	b, err := c.PutFile(ctx, "team", "film.mp4", path, client.PutOptions{
		PartSize:    1000,
		ContentType: "video/mp4",
	})
	check(err)
	fmt.Println(b.Size, b.ContentType)
	// Output: 3000 video/mp4
}

// DownloadFile writes a file that appears when it is complete.
func ExampleClient_DownloadFile() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	_, err := c.Put(ctx, "team", "a", strings.NewReader("hello, world"), client.PutOptions{})
	check(err)
	dir, remove := exampleFolder()
	defer remove()
	path := filepath.Join(dir, "a.txt")
	_, err = c.DownloadFile(ctx, "team", "a", path, client.DownloadOptions{
		Progress: func(done, total int64) {
			if done == total {
				fmt.Println(done, "bytes")
			}
		},
	})
	check(err)
	text, err := os.ReadFile(path)
	check(err)
	fmt.Println(string(text))
	// Output:
	// 12 bytes
	// hello, world
}

// GetRange reads a part of a blob.
func ExampleClient_GetRange() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	_, err := c.Put(ctx, "team", "a", strings.NewReader("hello, world"), client.PutOptions{})
	check(err)
	r, err := c.GetRange(ctx, "team", "a", 7, 5, client.GetOptions{})
	check(err)
	text, err := io.ReadAll(r)
	check(err)
	check(r.Close())
	fmt.Println(string(text), r.Size(), r.Blob().Size)
	// Output: world 5 12
}

// Get returns an io.ReadSeekCloser.
func ExampleClient_Get() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	_, err := c.Put(ctx, "team", "a", strings.NewReader("hello, world"), client.PutOptions{})
	check(err)
	r, err := c.Get(ctx, "team", "a", client.GetOptions{})
	check(err)
	_, err = r.Seek(-5, io.SeekEnd)
	check(err)
	_, err = io.Copy(os.Stdout, r)
	check(err)
	check(r.Close())
	// Output: world
}

// Open returns an io.ReaderAt, for example for archive/zip.
func ExampleClient_Open() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	_, err := c.Put(ctx, "team", "a", strings.NewReader("hello, world"), client.PutOptions{})
	check(err)
	o, err := c.Open(ctx, "team", "a", client.GetOptions{})
	check(err)
	p := make([]byte, 5)
	_, err = o.ReadAt(p, 7)
	check(err)
	check(o.Close())
	fmt.Println(string(p), o.Size())
	// Output: world 12
}

// Download receives ranges in parallel.
func ExampleClient_Download() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	_, err := c.Put(ctx, "team", "a", strings.NewReader("hello, world"), client.PutOptions{})
	check(err)
	f, err := os.CreateTemp("", "example")
	check(err)
	defer func() { check(os.Remove(f.Name())) }()
	b, err := c.Download(ctx, "team", "a", f, client.DownloadOptions{Concurrency: 8})
	check(err)
	check(f.Close())
	text, err := os.ReadFile(f.Name())
	check(err)
	fmt.Println(b.Size, string(text))
	// Output: 12 hello, world
}

// FS returns an fs.FS, for example for html/template or net/http.
func ExampleClient_FS() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	for _, name := range []string{"site/index.html", "site/css/main.css", "other"} {
		_, err := c.Put(ctx, "team", name, strings.NewReader("content of "+name), client.PutOptions{})
		check(err)
	}
	site := c.FS(ctx, "team", "site/")
	check(fs.WalkDir(site, ".", func(path string, _ fs.DirEntry, err error) error {
		fmt.Println(path)
		return err
	}))
	text, err := fs.ReadFile(site, "css/main.css")
	check(err)
	fmt.Println(string(text))
	// Output:
	// .
	// css
	// css/main.css
	// index.html
	// content of site/css/main.css
}

// List returns names in byte order. With a delimiter it returns groups of names, like folders.
func ExampleClient_List() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	for _, name := range []string{"a", "b/1", "b/2", "c"} {
		_, err := c.Put(ctx, "team", name, strings.NewReader("content"), client.PutOptions{})
		check(err)
	}
	for entry, err := range c.List(ctx, "team", client.ListOptions{Delimiter: "/"}) {
		check(err)
		if entry.Prefix != "" {
			fmt.Println(entry.Prefix)
			continue
		}
		fmt.Println(entry.Name, entry.Size)
	}
	// Output:
	// a 7
	// b/
	// c 7
}

// Errors belong to classes, and *client.Error has their details.
func ExampleError() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	_, err := c.Get(ctx, "team", "none", client.GetOptions{})
	fmt.Println(errors.Is(err, client.ErrNotFound))
	var e *client.Error
	if errors.As(err, &e) {
		fmt.Println(e.Status, e.Code)
	}
	// Output:
	// true
	// 404 blob_not_found
}

// Delete with a condition deletes only a certain version.
func ExampleClient_Delete() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	old, err := c.Put(ctx, "team", "a", strings.NewReader("old"), client.PutOptions{})
	check(err)
	_, err = c.Put(ctx, "team", "a", strings.NewReader("new"), client.PutOptions{})
	check(err)
	err = c.Delete(ctx, "team", "a", client.DeleteOptions{IfMatch: old.ETag})
	fmt.Println(errors.Is(err, client.ErrPreconditionFailed))
	check(c.Delete(ctx, "team", "a", client.DeleteOptions{}))
	_, err = c.Head(ctx, "team", "a")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// true
	// true
}

// Uploads returns the uploads that interrupted calls of PutFile have left, also by other clients.
func ExampleClient_Uploads() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	for upload, err := range c.Uploads(ctx, "team") {
		check(err)
		if time.Since(upload.Created) > time.Hour {
			check(c.AbortUpload(ctx, upload.ID))
		}
	}
	// Output:
}

// Info describes the service.
func ExampleClient_Info() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	info, err := c.Info(ctx)
	check(err)
	fmt.Println(info.Version, info.Limits.MaxParts)
	// Output: test 100000
}

func ExampleIsTemporary() {
	fmt.Println(client.IsTemporary("film.mp4"), client.IsTemporary(".film.mp4.1f2e3d4c.sluice-upload"))
	// Output: false true
}
