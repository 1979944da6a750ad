package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/metastore"
)

// body is what is in the blob of a source that has this number: nothing, a few
// KB, or two extents, of which the first has two blocks.
func body(i int) []byte {
	repeated := 8_000 * i
	if i == sourceBlobs-1 {
		repeated = 1_000_000
	}
	return bytes.Repeat([]byte{byte(i), 7, 13}, repeated)
}

const sourceBlobs = 6

// newSource makes a data folder with an instance of some blobs.
func newSource(t *testing.T) string {
	t.Helper()
	data := filepath.Join(t.TempDir(), "source")
	s, err := openStores(t.Context(), places{metaPlace: metaPlace{Data: data}})
	if err != nil {
		t.Fatal(err)
	}
	blobs := blob.New(s.meta, s.bytes, blob.Options{ExtentSize: 2 << 20})
	var errs []error
	for i := range sourceBlobs {
		_, err := blobs.Put(t.Context(), blob.PutOptions{Account: "a", Name: fmt.Sprint("blob", i)}, bytes.NewReader(body(i)), int64(len(body(i))))
		errs = append(errs, err)
	}
	errs = append(errs, s.meta.SetProperty(t.Context(), "receiver", "0x7a"), s.Close())
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return data
}

// checkCopy reads all blobs of newSource.
func checkCopy(t *testing.T, meta metastore.Store, store bytestore.Store) {
	t.Helper()
	blobs := blob.New(meta, store, blob.Options{})
	for i := range sourceBlobs {
		c, err := blobs.Open(t.Context(), "a", fmt.Sprint("blob", i))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		_, err = c.WriteRange(t.Context(), &got, 0, int64(len(body(i))))
		if c.Close(); err != nil || !bytes.Equal(got.Bytes(), body(i)) {
			t.Errorf("blob %d has %d bytes that are not what was put, %v", i, got.Len(), err)
		}
	}
	if receiver, err := meta.Property(t.Context(), "receiver"); err != nil || receiver != "0x7a" {
		t.Errorf("the receiver is %q, %v", receiver, err)
	}
}

// sideAt opens a side until the end of the test.
func sideAt(t *testing.T, data string, existing bool) *side {
	t.Helper()
	s, err := openSide(t.Context(), places{metaPlace: metaPlace{Data: data}}, existing, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var errKilled = errors.New("killed here")

// killedTarget lets the writes to a target happen until one at which the process
// dies: before it takes effect, or after.
type killedTarget struct {
	step  int
	after bool
	steps chan int // holds how many were taken
}

func (k killedTarget) do(write func() error) error {
	n := <-k.steps + 1
	k.steps <- n
	switch {
	case n < k.step:
		return write()
	case n == k.step && k.after:
		return errors.Join(write(), errKilled)
	default:
		return errKilled
	}
}

type killedBytes struct {
	bytestore.Store
	killedTarget
}

func (b killedBytes) Put(ctx context.Context, key bytestore.Key, src io.Reader, size int64) error {
	return b.do(func() error { return b.Store.Put(ctx, key, src, size) })
}

func (b killedBytes) Delete(ctx context.Context, keys ...bytestore.Key) error {
	return b.do(func() error { return b.Store.Delete(ctx, keys...) })
}

type killedFacts struct {
	metastore.Store
	killedTarget
}

func (m killedFacts) SetProperty(ctx context.Context, name, value string) error {
	return m.do(func() error { return m.Store.SetProperty(ctx, name, value) })
}

func (m killedFacts) ReplaceProperty(ctx context.Context, name, old, value string) error {
	return m.do(func() error { return m.Store.ReplaceProperty(ctx, name, old, value) })
}

// TestMigrationCutAtEachStep: wherever a copy ends, its target is nobody's
// instance before it is whole, and the next run makes it so.
func TestMigrationCutAtEachStep(t *testing.T) {
	from := sideAt(t, newSource(t), true)
	id, err := blob.Bind(t.Context(), from.meta, from.bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []bool{false, true} {
		for step, cut := 1, true; cut; step++ {
			to := sideAt(t, t.TempDir(), false)
			killed := killedTarget{step: step, after: after, steps: make(chan int, 1)}
			killed.steps <- 0
			target := &side{stores: &stores{meta: killedFacts{to.meta, killed}, bytes: killedBytes{to.bytes, killed}}, sql: to.sql}
			m := &migration{from: from, to: target, progress: newProgress(io.Discard, true), complain: io.Discard}
			_, err := m.run(t.Context())
			if cut = err != nil; cut && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if !cut && step < sourceBlobs+5 {
				t.Fatalf("there were only %d steps", step)
			}
			marks, err := readMarks(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			// A target without any mark is as empty as it was.
			if marks.copied != "" && marks.fact != id {
				if _, err := blob.Bind(t.Context(), to.meta, to.bytes); !errors.Is(err, blob.ErrUnfinishedCopy) {
					t.Fatalf("step %d, after %t: half of a copy can be served: %v", step, after, err)
				}
			}
			m = &migration{from: from, to: to, progress: newProgress(io.Discard, true), complain: io.Discard}
			if _, err := m.run(t.Context()); err != nil {
				t.Fatalf("step %d, after %t: the next run: %v", step, after, err)
			}
			if got, err := blob.Bind(t.Context(), to.meta, to.bytes); err != nil || got != id {
				t.Fatalf("step %d, after %t: the copy is instance %q, %v; want %q", step, after, got, err, id)
			}
			checkCopy(t, to.meta, to.bytes)
			if marks, err = readMarks(t.Context(), to); err != nil || marks.copied != "" {
				t.Errorf("step %d, after %t: the mark is left: %+v, %v", step, after, marks, err)
			}
		}
	}
}

// TestMigrationIsMarkedFirst: a target is marked before anything else is in it,
// and a target whose metadata is refused loses the mark again.
func TestMigrationIsMarkedFirst(t *testing.T) {
	from := sideAt(t, newSource(t), true)
	m := &migration{from: from, progress: newProgress(io.Discard, true), complain: io.Discard}
	if err := m.identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	at := places{metaPlace: metaPlace{Data: data}}
	s, err := openSide(t.Context(), at, false, func(ctx context.Context, bytes bytestore.Store) error {
		if _, err := os.Stat(filepath.Join(data, metaFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is metadata before the mark: %v", err)
		}
		return errors.Join(m.markBytes(ctx, bytes), errKilled)
	})
	if !errors.Is(err, errKilled) {
		t.Fatal(s, err)
	}
	if r := sluice("serve", "--addr", "127.0.0.1:0", "--data", data); r.code != 1 || !strings.Contains(r.stderr, "unfinished copy of the instance "+m.id) {
		t.Errorf("serve on a copy that has just begun: exit code %d, %s", r.code, r.stderr)
	}

	withKey := filepath.Join(t.TempDir(), "data")
	makeKey(t, withKey, "--scopes", "read", "--all-accounts")
	m.marked = false
	if m.to, err = openSide(t.Context(), places{metaPlace: metaPlace{Data: withKey}}, false, m.markBytes); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.to.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := m.begin(t.Context()); err == nil || !strings.Contains(err.Error(), "has metadata already") {
		t.Errorf("a target with a key: %v", err)
	}
	if marks, err := readMarks(t.Context(), m.to); err != nil || marks.copied != "" || marks.fact != "" {
		t.Errorf("a target that was refused is marked: %+v, %v", marks, err)
	}
}

// objectFiles gives the files of a data folder's objects, the greatest first.
func objectFiles(t *testing.T, data string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(data, bytesDir, "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	size := func(name string) int64 {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	slices.SortFunc(files, func(a, b string) int { return int(size(b) - size(a)) })
	return files
}

// TestMigrationOfDamage: each damaged object is named, what is there of the copy
// is not served, and once the source is mended it is finished.
func TestMigrationOfDamage(t *testing.T) {
	from, to := newSource(t), filepath.Join(t.TempDir(), "target")
	files := objectFiles(t, from)
	kept, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(kept)
	flipped[len(flipped)/2] ^= 1
	missing, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	short, err := os.ReadFile(files[2])
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		t.Helper()
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(files[0], flipped)
	write(files[2], short[1:])
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	args := []string{"migrate", "--from", from, "--to", to, "--quiet"}
	r := sluice(args...)
	if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "damaged or missing: 3") {
		t.Errorf("exit code %d, %s", r.code, r.stderr)
	}
	for _, file := range files {
		if got, want := strings.Contains(r.stderr, filepath.Base(file)), slices.Contains(files[:3], file); got != want {
			t.Errorf("that %s is complained of is %t, want %t:\n%s", filepath.Base(file), got, want, r.stderr)
		}
	}
	if s, err := openStores(t.Context(), places{metaPlace: metaPlace{Data: to}}); !errors.Is(err, blob.ErrUnfinishedCopy) {
		t.Fatalf("half of a copy is opened: %v, %v", s, err)
	}
	write(files[0], kept)
	write(files[1], missing)
	write(files[2], short)
	if r := must(t, args...); r.stderr != "" || !strings.Contains(r.stdout, "is copied") {
		t.Errorf("once it is mended: %+v", r)
	}
	if r := must(t, args...); !strings.Contains(r.stdout, "is there already") {
		t.Errorf("once more: %+v", r)
	}
	s := opened(t, to)
	checkCopy(t, s.meta, s.bytes)
}

func TestMigrateRefusals(t *testing.T) {
	from := newSource(t)
	empty := func() string { return filepath.Join(t.TempDir(), "data") }
	withKey := empty()
	makeKey(t, withKey, "--scopes", "read", "--all-accounts")
	withBytes := empty()
	s, err := openSide(t.Context(), places{metaPlace: metaPlace{Data: withBytes}}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.bytes.Put(t.Context(), "stray", strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	begun := empty()
	ofAnother := &migration{id: strings.Repeat("0", 32)}
	if ofAnother.to, err = openSide(t.Context(), places{metaPlace: metaPlace{Data: begun}}, false, ofAnother.markBytes); err != nil {
		t.Fatal(err)
	} else if _, err := ofAnother.begin(t.Context()); err != nil {
		t.Fatal(err)
	} else if err := ofAnother.to.Close(); err != nil {
		t.Fatal(err)
	}
	served := newSource(t)
	opened(t, served)
	nowhere := empty()
	const secret = "secret-canary"
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--from DIR, or both", []string{"--to", empty()}},
		{"--to DIR, or both", []string{"--from", from, "--to-meta", "postgres://h/n"}},
		{"--to-meta: want postgres://", []string{"--from", from, "--to", empty(), "--to-meta", "mysql://u:" + secret + "@h"}},
		{"--from-bytes: ", []string{"--from", from, "--from-bytes", "http://" + secret, "--to", empty()}},
		{"in the same place", []string{"--from", from, "--to", from + "/."}},
		{"in the same place", []string{"--from", from, "--to", from, "--to-bytes", "s3://bucket"}},
		{"the source: the folder " + nowhere + " has no", []string{"--from", nowhere, "--to", empty()}},
		{"the source: the data folder " + served + " is in use", []string{"--from", served, "--to", empty()}},
		{"the target: the data folder " + served + " is in use", []string{"--from", from, "--to", served}},
		{"the target: it is the instance ", []string{"--from", from, "--to", newSource(t)}},
		{"the target: it has metadata already", []string{"--from", from, "--to", withKey}},
		{"the target: it has bytes already, such as the object stray", []string{"--from", from, "--to", withBytes}},
		{"the target: it holds a part of a copy of the instance 000", []string{"--from", from, "--to", begun}},
	} {
		r := sluice(append([]string{"migrate"}, c.args...)...)
		if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, secret) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q; want 1 and a line that says %q", c.args, r.code, r.stderr, c.want)
		}
	}
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("a source was made")
	}
}
