package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/internal/testenv"
	"sluice/metastore"
)

// unanswered is a metadata store that commits but loses the responses.
type unanswered struct{ blob.Metadata }

func (u unanswered) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (metastore.Blob, error) {
	_, err := u.Metadata.CommitBlob(ctx, b, extents, precondition)
	return metastore.Blob{}, errors.Join(err, fmt.Errorf("commit: %w", database.ErrUnknownOutcome))
}

func (u unanswered) PutPart(ctx context.Context, id string, p metastore.Part, extents []metastore.Extent) error {
	return errors.Join(u.Metadata.PutPart(ctx, id, p, extents), fmt.Errorf("commit: %w", database.ErrUnknownOutcome))
}

// TestWritesInDoubtKeepTheirBytes checks that a blob and a part keep their bytes if their commits
// have an unknown outcome.
func TestWritesInDoubtKeepTheirBytes(t *testing.T) {
	f := newFixture(t, blob.Options{InlineSize: -1, ExtentSize: 1 << 20})
	doubtful := blob.New(unanswered{f.meta}, f.bytes, blob.Options{InlineSize: -1, ExtentSize: 1 << 20})
	body := randomBytes(1, 2<<20+1)
	_, err := doubtful.Put(t.Context(), blob.PutOptions{Account: "a", Name: "n"}, bytes.NewReader(body), int64(len(body)))
	if !errors.Is(err, database.ErrUnknownOutcome) {
		t.Fatal(err)
	}
	if got := f.read(t, "n", 0, int64(len(body))); !bytes.Equal(got, body) {
		t.Error("the blob has other bytes")
	}
	u := f.begin(t, "upload", int64(len(body)))
	err = doubtful.PutPart(t.Context(), blob.PartOptions{UploadID: u.ID, Index: 0}, bytes.NewReader(body), int64(len(body)))
	if !errors.Is(err, database.ErrUnknownOutcome) {
		t.Fatal(err)
	}
	if _, err := f.Complete(t.Context(), u.ID, blob.Totals{}, nil); err != nil {
		t.Fatal(err)
	}
	if got := f.read(t, "upload", 0, int64(len(body))); !bytes.Equal(got, body) {
		t.Error("the upload has other bytes")
	}
}

// TestRunFreesWhenTheLastReaderEnds checks that a content deleted under readers is freed shortly
// after the last of them has closed it, not at the next periodic run.
func TestRunFreesWhenTheLastReaderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		meta, err := sqlstore.OpenSQLite(filepath.Join(testenv.MemoryDir(t), "meta.db"), sqlstore.Options{Now: time.Now})
		testenv.OK(t, err)
		store := memory.New()
		f := &fixture{Service: blob.New(meta, store, blob.Options{InlineSize: -1}), meta: meta, bytes: store}
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx, reportTo(t))
		}()
		f.put(t, "n", []byte("body"))
		var readers []*blob.Content
		for range 2 {
			c, err := f.Open(ctx, "a", "n")
			testenv.OK(t, err)
			readers = append(readers, c)
		}
		testenv.OK(t, f.Delete(ctx, "a", "n", nil))
		for i, c := range readers {
			time.Sleep(time.Second)
			if n := f.objects(t); n != 1 {
				t.Errorf("%d objects while %d readers are left, want the blob's", n, len(readers)-i)
			}
			c.Close()
		}
		time.Sleep(time.Second)
		if n := f.objects(t); n != 0 {
			t.Errorf("%d objects a second after the last reader", n)
		}
		stop()
		<-done
		if err := meta.Close(); err != nil {
			t.Error(err)
		}
	})
}
