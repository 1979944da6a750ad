package blob_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/checksum"
	"sluice/database"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// Invariant 7.
func TestETagDependsOnContentAlone(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	body := randomBytes(7, 3<<20+123)
	f.put(t, "whole", body)
	want := testenv.Must(f.meta.Blob(ctx, "a", "whole"))(t)
	for _, partSize := range []int{1 << 10, 1000 * 7, 1 << 20, 5 << 20} {
		u := f.begin(t, "parts", int64(partSize))
		for i := 0; i*partSize < len(body); i++ {
			f.part(t, u.ID, i, body[i*partSize:min((i+1)*partSize, len(body))])
		}
		done := testenv.Must(f.Complete(ctx, u.ID, blob.Totals{}, nil))(t)
		if got := checksum.ETag(done.Size, done.CRC64); got != checksum.ETag(want.Size, want.CRC64) {
			t.Errorf("parts of %d: ETag %s, by PUT %s", partSize, got, checksum.ETag(want.Size, want.CRC64))
		}
		f.wantRead(t, "parts", 0, body, "parts of %d", partSize)
	}
}

// Invariant 9.
func TestPutRefusals(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	big := randomBytes(3, 3<<20)
	otherDigest := sha256.Sum256([]byte("other"))
	refuse, broken := errors.New("refused by the precondition"), errors.New("broken")
	cases := []struct {
		name string
		put  blob.PutOptions
		body io.Reader
		size int64
		want error
	}{
		{"short inline", blob.PutOptions{}, strings.NewReader("abc"), 4, blob.ErrIncompleteBody},
		{"short extent", blob.PutOptions{}, bytes.NewReader(big), int64(len(big)) + 1, blob.ErrIncompleteBody},
		{"cut extent", blob.PutOptions{}, io.MultiReader(bytes.NewReader(big), iotest.ErrReader(blob.ErrIncompleteBody)), int64(len(big)) + 1, blob.ErrIncompleteBody},
		{"cut chunked", blob.PutOptions{}, io.MultiReader(bytes.NewReader(big), iotest.ErrReader(blob.ErrIncompleteBody)), bytestore.UnknownSize, blob.ErrIncompleteBody},
		{"cut small chunked", blob.PutOptions{}, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(blob.ErrIncompleteBody)), bytestore.UnknownSize, blob.ErrIncompleteBody},
		{"wrong digest inline", blob.PutOptions{SHA256: otherDigest[:]}, strings.NewReader("abc"), 3, blob.ErrDigestMismatch},
		{"wrong digest extent", blob.PutOptions{SHA256: otherDigest[:]}, bytes.NewReader(big), int64(len(big)), blob.ErrDigestMismatch},
		{"past expiry", blob.PutOptions{Expires: f.clock.Now()}, strings.NewReader("abc"), 3, blob.ErrExpiryPast},
		{"too large", blob.PutOptions{}, strings.NewReader("abc"), blob.MaxSize + 1, blob.ErrTooLarge},
		{"the largest", blob.PutOptions{}, iotest.ErrReader(broken), blob.MaxSize, broken},
		{"precondition", blob.PutOptions{Precondition: func(*metastore.Blob) error { return refuse }}, iotest.ErrReader(errors.New("the body was read")), 3, refuse},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.put.Account, c.put.Name = "a", "refused"
			testenv.Is(t, testenv.Error(f.Put(ctx, c.put, c.body, c.size)), c.want, "Put")
			testenv.Is(t, testenv.Error(f.meta.Blob(ctx, "a", "refused")), database.ErrNotFound, "the blob")
			f.wantObjects(t, 0, "that stay behind")
		})
	}
}

func TestBlobThatExpiresMeanwhileReplacesNothing(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	f.put(t, "n", []byte("precious"))
	soon := f.clock.Now().Add(time.Minute)
	u, err := f.Begin(ctx, blob.BeginOptions{Account: "a", Name: "n", PartSize: 4, Expires: soon})
	testenv.OK(t, err)
	body := readerFunc(func(p []byte) (int, error) {
		f.clock.Advance(time.Minute)
		return len(p), nil
	})
	_, err = f.Put(ctx, blob.PutOptions{Account: "a", Name: "n", Expires: soon}, body, 10)
	testenv.Is(t, err, blob.ErrExpiryPast, "Put")
	testenv.Is(t, testenv.Error(f.Complete(ctx, u.ID, blob.Totals{}, nil)), blob.ErrExpiryPast, "Complete")
	f.wantRead(t, "n", 0, []byte("precious"), "after the refusals")
}

func TestPutThatTakesTooLongIsCut(t *testing.T) {
	f := newFixture(t, blob.Options{})
	body := io.MultiReader(bytes.NewReader(randomBytes(1, 3<<20)), readerFunc(func(p []byte) (int, error) {
		f.clock.Advance(metastore.MaxExtentAge + time.Second)
		return len(p), nil
	}))
	_, err := f.Put(context.Background(), to("slow"), body, 10<<20)
	testenv.Is(t, err, blob.ErrPutTooLong, "a slow Put")
	f.wantObjects(t, 0, "that stay behind")
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestFullStoreAllowsOnlyDeletes(t *testing.T) {
	ctx := context.Background()
	full := false
	f := newFixture(t, blob.Options{Space: func(n int64) error {
		if full || n > 1<<40 {
			return bytestore.ErrNoSpace
		}
		return nil
	}})
	f.put(t, "there", randomBytes(1, 1<<20))
	u := f.begin(t, "upload", 1<<20)
	full = true
	_, err := f.Put(ctx, to("n"), strings.NewReader("x"), 1)
	testenv.Is(t, err, bytestore.ErrNoSpace, "Put")
	_, err = f.PutPart(ctx, blob.PartOptions{UploadID: u.ID, Index: 0}, strings.NewReader("x"), 1)
	testenv.Is(t, err, bytestore.ErrNoSpace, "PutPart")
	full = false
	unread := iotest.ErrReader(errors.New("the body was read"))
	_, err = f.Put(ctx, to("n"), unread, 1<<40+1)
	testenv.Is(t, err, bytestore.ErrNoSpace, "Put of more than there is space for")
	full = true
	testenv.Is(t, f.Delete(ctx, "a", "there", nil), nil, "Delete")
	f.wantObjects(t, 0, "after the delete, which frees space")
}

// Invariant 5.
func TestBytesAreFreedWhenTheLastReaderEnds(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	body := randomBytes(1, 5<<20)
	f.put(t, "n", body)
	first := testenv.Must(f.Open(ctx, "a", "n"))(t)
	second := testenv.Must(f.Open(ctx, "a", "n"))(t)
	f.put(t, "n", []byte("new"))
	testenv.OK(t, f.FreeGarbage(ctx))
	first.Close()
	testenv.OK(t, f.FreeGarbage(ctx))
	var out bytes.Buffer
	if _, err := second.WriteRange(ctx, &out, 0, int64(len(body))); err != nil || !bytes.Equal(out.Bytes(), body) {
		t.Fatalf("a reader lost its bytes: %v", err)
	}
	second.Close()
	second.Close() // does nothing
	testenv.OK(t, f.FreeGarbage(ctx))
	f.wantObjects(t, 0, "that stay behind")
	f.wantRead(t, "n", 0, []byte("new"), "after the last reader")
}

// TestReadersRaceWithOverwrites checks that readers that race with overwrites and Run read one
// version completely.
// Invariant 3.
func TestReadersRaceWithOverwrites(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	version := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1<<20+1) }
	f.put(t, "n", version(0))
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				c, err := f.Open(ctx, "a", "n")
				if err != nil {
					t.Error(err)
					return
				}
				var out bytes.Buffer
				_, err = c.WriteRange(ctx, &out, 0, c.Size)
				c.Close()
				if got := out.Bytes(); err != nil || len(got) != 1<<20+1 || !bytes.Equal(got, bytes.Repeat(got[:1], len(got))) {
					t.Errorf("torn read: %d bytes, %v", len(got), err)
					return
				}
			}
		})
	}
	for i := range 100 {
		f.put(t, "n", version(i))
		testenv.Check(t, f.FreeGarbage(ctx))
	}
	close(stop)
	workers.Wait()
	testenv.OK(t, f.FreeGarbage(ctx))
	f.wantObjects(t, 1, "(of one blob)")
}

// Invariant 4.
func TestDamageIsNeverServed(t *testing.T) {
	ctx := context.Background()
	f := newFixture(t, blob.Options{})
	f.put(t, "n", randomBytes(1, 3<<20))
	var names []bytestore.Name
	testenv.OK(t, f.bytes.List(ctx, "", func(o bytestore.Object) error { names = append(names, o.Name); return nil }))
	damage(t, f.bytes, names[0])
	c := f.open(t, "n")
	n, err := c.WriteRange(ctx, io.Discard, 0, c.Size)
	if !errors.Is(err, integrity.ErrCorrupt) {
		t.Fatalf("error %v after %d bytes, want %v", err, n, integrity.ErrCorrupt)
	}
	for _, name := range names {
		testenv.OK(t, f.bytes.Delete(ctx, name))
	}
	if _, err := c.WriteRange(ctx, io.Discard, 0, c.Size); !errors.Is(err, integrity.ErrCorrupt) {
		t.Fatalf("lost object: error %v, want %v", err, integrity.ErrCorrupt)
	}
}

// damage flips one bit in an object's middle.
func damage(t *testing.T, store bytestore.Store, name bytestore.Name) {
	t.Helper()
	ctx := context.Background()
	var size int64
	testenv.OK(t, store.List(ctx, "", func(o bytestore.Object) error {
		if o.Name == name {
			size = o.Size
		}
		return nil
	}))
	r := testenv.Must(store.Open(ctx, name, 0, size))(t)
	body := make([]byte, size)
	testenv.Must(io.ReadFull(r, body))(t)
	testenv.OK(t, errors.Join(r.Close(), store.Delete(ctx, name)))
	body[size/2] ^= 1
	testenv.OK(t, store.Put(ctx, name, bytes.NewReader(body), size))
}
