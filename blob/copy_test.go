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

func named(name string) metastore.BlobName { return metastore.BlobName{Account: "a", Name: name} }

func (f *fixture) copy(t testing.TB, from, to string) metastore.Blob {
	t.Helper()
	return testenv.Must(f.Copy(context.Background(), blob.CopyOptions{From: named(from), To: named(to)}))(t)
}

func (f *fixture) move(t testing.TB, from, to string) metastore.Blob {
	t.Helper()
	return testenv.Must(f.Move(context.Background(), blob.MoveOptions{From: named(from), To: named(to)}))(t)
}

// TestDescribedAnew: a copy onto itself that keeps the date is decided by the blob as it is, and is
// done again if that has changed meanwhile.
// Invariant 188.
func TestDescribedAnew(t *testing.T) {
	f := newFixture(t, blob.Options{})
	f.put(t, "name", []byte("x"))
	modified := f.clock.Now()
	f.clock.Advance(time.Minute)
	later := f.clock.Now().Add(time.Hour)
	calls := 0
	b := testenv.Must(f.Copy(t.Context(), blob.CopyOptions{From: named("name"), To: named("name"), KeepDate: true, Restate: func(source metastore.Blob, copied *metastore.Blob) error {
		if calls++; calls == 1 {
			testenv.Must(f.Copy(t.Context(), blob.CopyOptions{From: named("name"), To: named("name"), Expires: later, KeepDate: true}))(t)
		}
		copied.Metadata, copied.Expires = "m", source.Expires
		return nil
	}}))(t)
	if calls != 2 || b.Metadata != "m" || !b.Expires.Equal(later) || !b.Modified.Equal(modified) {
		t.Errorf("after %d calls the blob is %+v", calls, b)
	}
}

func (f *fixture) remove(t testing.TB, name string) {
	t.Helper()
	testenv.OK(t, f.Delete(context.Background(), "a", name, nil))
}

// free lets garbage become due, and frees it.
func (f *fixture) free(t testing.TB) {
	t.Helper()
	f.clock.Advance(2 * time.Hour)
	testenv.OK(t, f.FreeGarbage(context.Background()))
}

// TestCopiedBytesAreFreedWithTheLastCopy copies, moves, replaces and deletes blobs with the same
// bytes, which must be readable while a blob has them, and be freed when none has.
// Invariant 5.
func TestCopiedBytesAreFreedWithTheLastCopy(t *testing.T) {
	for _, grace := range []time.Duration{0, time.Hour} {
		for _, size := range []int{0, 10, 5<<20 + 3} {
			t.Run(fmt.Sprintf("%d bytes, grace %v", size, grace), func(t *testing.T) {
				f := newFixture(t, blob.Options{GarbageGrace: grace})
				body := randomBytes(1, size)
				f.put(t, "first", body)
				stored := f.objects(t)
				for i := range 3 {
					if b := f.copy(t, "first", fmt.Sprint("copy-", i)); b.Size != int64(size) {
						t.Errorf("the copy is %+v", b)
					}
				}
				f.move(t, "copy-0", "moved")
				f.copy(t, "moved", "copy-1") // which has the same bytes already
				f.wantObjects(t, stored, "after the copies")
				f.remove(t, "first")
				f.put(t, "copy-1", nil)
				f.move(t, "copy-1", "copy-2")
				f.free(t)
				f.wantRead(t, "moved", 0, body, "the last copy")
				f.wantObjects(t, stored, "while a copy is left")
				f.remove(t, "moved")
				f.free(t)
				f.wantObjects(t, 0, "after the last copy")
				f.wantNoGarbage(t, "after the last copy")
			})
		}
	}
}

// TestReaderKeepsCopiedBytes deletes all blobs that have a content while it is read by one name,
// and frees its bytes when the reader has ended.
// Invariant 5.
func TestReaderKeepsCopiedBytes(t *testing.T) {
	f := newFixture(t, blob.Options{})
	body := randomBytes(2, 5<<20)
	f.put(t, "first", body)
	f.copy(t, "first", "copy")
	c := testenv.Must(f.Open(t.Context(), "a", "copy"))(t)
	f.remove(t, "copy")
	f.remove(t, "first")
	f.free(t)
	var out bytes.Buffer
	testenv.OK(t, testenv.Error(c.WriteRange(t.Context(), &out, 0, int64(len(body)))))
	if !bytes.Equal(out.Bytes(), body) {
		t.Error("the reader got other bytes")
	}
	c.Close()
	f.free(t)
	f.wantObjects(t, 0, "after the reader has ended")
}

// TestReplacedDestinationIsFreed checks that Run frees what a copy and a move replace without
// waiting for its next look.
func TestReplacedDestinationIsFreed(t *testing.T) {
	inRun(t, notInline, func(t *testing.T, f *fixture) {
		f.put(t, "source", []byte("source"))
		f.put(t, "copied over", []byte("old"))
		f.put(t, "moved over", []byte("old"))
		time.Sleep(time.Second) // in which Run looks because of these
		f.copy(t, "source", "copied over")
		f.move(t, "source", "moved over")
		time.Sleep(time.Second)
		f.wantObjects(t, 1, "a second after two were replaced")
	})
}

func TestCopyRefusals(t *testing.T) {
	f := newFixture(t, blob.Options{})
	body := randomBytes(3, 3<<20)
	f.put(t, "source", body)
	f.put(t, "destination", []byte("old"))
	refuse := errors.New("refused")
	no := func(*metastore.Blob) error { return refuse }
	for name, test := range map[string]struct {
		options blob.CopyOptions
		want    error
	}{
		"no source":         {blob.CopyOptions{From: named("none")}, metastore.ErrNoSource},
		"past expiry":       {blob.CopyOptions{Expires: f.clock.Now()}, blob.ErrExpiryPast},
		"source":            {blob.CopyOptions{Source: no}, refuse},
		"destination":       {blob.CopyOptions{Precondition: no}, refuse},
		"not admitted":      {blob.CopyOptions{Admit: func(context.Context, metastore.Blob) error { return refuse }}, refuse},
		"no longer allowed": {blob.CopyOptions{Permit: func(context.Context) error { return refuse }}, refuse},
	} {
		o := test.options
		if o.To = named("destination"); o.From.Name == "" {
			o.From = named("source")
		}
		testenv.Is(t, testenv.Error(f.Copy(t.Context(), o)), test.want, "copy: %s", name)
		if !o.Expires.IsZero() {
			continue
		}
		m := blob.MoveOptions{From: o.From, To: o.To, Source: o.Source, Precondition: o.Precondition, Admit: o.Admit, Permit: o.Permit}
		testenv.Is(t, testenv.Error(f.Move(t.Context(), m)), test.want, "move: %s", name)
	}
	full := blob.New(f.meta, f.bytes, blob.Options{Space: func(int64) error { return refuse }})
	testenv.Is(t, testenv.Error(full.Copy(t.Context(), blob.CopyOptions{From: named("source"), To: named("copy")})), refuse, "copy on a full disk")
	f.wantRead(t, "destination", 0, []byte("old"), "after the refusals")
	f.wantRead(t, "source", 0, body, "after the refusals")
}

// TestSourceIsAdmittedAsItIsTransferred replaces the source between its admission and the
// transaction: the one that is copied or moved must be admitted too, and a source that is replaced
// each time is not copied.
func TestSourceIsAdmittedAsItIsTransferred(t *testing.T) {
	for _, test := range []struct {
		name     string
		transfer func(f *fixture, admit blob.Admit) error
	}{
		{"copy", func(f *fixture, admit blob.Admit) error {
			return testenv.Error(f.Copy(context.Background(), blob.CopyOptions{From: named("source"), To: named("other"), Admit: admit}))
		}},
		{"move", func(f *fixture, admit blob.Admit) error {
			return testenv.Error(f.Move(context.Background(), blob.MoveOptions{From: named("source"), To: named("other"), Admit: admit}))
		}},
	} {
		for _, replaced := range []int{1, 3, 1000} {
			f := newFixture(t, blob.Options{})
			f.put(t, "source", []byte("x"))
			var last int64
			calls := 0
			err := test.transfer(f, func(_ context.Context, source metastore.Blob) error {
				last = source.Size
				if calls++; calls <= replaced {
					f.put(t, "source", make([]byte, calls+1))
				}
				return nil
			})
			if replaced == 1000 {
				testenv.Is(t, err, blob.ErrSourceChanging, "%s of a source that changes each time", test.name)
				continue
			}
			testenv.OK(t, err)
			b := testenv.Must(f.meta.Blob(t.Context(), "a", "other"))(t)
			if b.Size != last || b.Size != int64(replaced+1) {
				t.Errorf("%s: %d bytes, and %d were admitted of %d", test.name, b.Size, last, replaced+1)
			}
		}
	}
}

// TestRecordedMoveNeedsNoAdmission repeats a move that is recorded, also if there is a new source
// that would not be admitted.
func TestRecordedMoveNeedsNoAdmission(t *testing.T) {
	f := newFixture(t, blob.Options{})
	body := randomBytes(4, 3<<20)
	f.put(t, "source", body)
	o := blob.MoveOptions{From: named("source"), To: named("moved"), Once: &database.Idempotency{Scope: "move", Key: "k"}}
	first := testenv.Must(f.Move(t.Context(), o))(t)
	refuse := errors.New("refused")
	o.Admit = func(context.Context, metastore.Blob) error { return refuse }
	for _, newSource := range []bool{false, true} {
		if newSource {
			f.put(t, "source", []byte("new"))
		}
		again := testenv.Must(f.Move(t.Context(), o))(t)
		if again.Content != first.Content || !again.Modified.Equal(first.Modified) {
			t.Errorf("the repeated move returned %+v, want %+v", again, first)
		}
	}
	f.wantRead(t, "source", 0, []byte("new"), "the new source")
	o.Once.Key = "other"
	testenv.Is(t, testenv.Error(f.Move(t.Context(), o)), refuse, "another move")
	f.wantRead(t, "moved", 0, body, "the moved blob")
}

// TestMoveOntoItselfIsNotAdmitted: nothing changes, so nothing needs to be admitted.
func TestMoveOntoItselfIsNotAdmitted(t *testing.T) {
	f := newFixture(t, blob.Options{})
	f.put(t, "name", []byte("x"))
	o := blob.MoveOptions{From: named("name"), To: named("name"), Admit: func(context.Context, metastore.Blob) error { return errors.New("refused") }}
	testenv.OK(t, testenv.Error(f.Move(t.Context(), o)))
}
