package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"sluice/blob"
	"sluice/database"
	"sluice/metastore"
	"sluice/test/testenv"
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
// Invariant 15.
func TestWritesInDoubtKeepTheirBytes(t *testing.T) {
	f := newFixture(t, blob.Options{InlineSize: -1, ExtentSize: 1 << 20})
	doubtful := blob.New(unanswered{f.meta}, f.bytes, blob.Options{InlineSize: -1, ExtentSize: 1 << 20})
	body := randomBytes(1, 2<<20+1)
	_, err := doubtful.Put(t.Context(), to("n"), bytes.NewReader(body), int64(len(body)))
	testenv.Is(t, err, database.ErrUnknownOutcome, "a blob whose commit loses its response")
	f.wantRead(t, "n", 0, body, "after a commit in doubt")
	u := f.begin(t, "upload", int64(len(body)))
	_, err = doubtful.PutPart(t.Context(), blob.PartOptions{UploadID: u.ID, Index: 0}, bytes.NewReader(body), int64(len(body)))
	testenv.Is(t, err, database.ErrUnknownOutcome, "a part whose commit loses its response")
	testenv.Must(f.Complete(t.Context(), u.ID, blob.Totals{}, nil))(t)
	f.wantRead(t, "upload", 0, body, "after a commit in doubt")
}

// TestRunFreesWhenTheLastReaderEnds checks that a content deleted under readers is freed shortly
// after the last of them has closed it, not at the next periodic run.
func TestRunFreesWhenTheLastReaderEnds(t *testing.T) {
	inRun(t, notInline, func(t *testing.T, f *fixture) {
		f.put(t, "n", []byte("body"))
		readers := []*blob.Content{f.open(t, "n"), f.open(t, "n")}
		testenv.OK(t, f.Delete(t.Context(), "a", "n", nil))
		for i, c := range readers {
			time.Sleep(time.Second)
			f.wantObjects(t, 1, "while %d readers are left", len(readers)-i)
			c.Close()
		}
		time.Sleep(time.Second)
		f.wantObjects(t, 0, "a second after the last reader")
	})
}
