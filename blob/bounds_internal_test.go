package blob

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/checksum"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestFreshBlocks checks that a block need not be checked from the second of its check until the
// TTL has passed, and must be checked if the clock was set back.
func TestFreshBlocks(t *testing.T) {
	checked := time.Unix(1_000_000, 0)
	now := checked
	l := newCheckLog(10*time.Second, func() time.Time { return now })
	times := l.of(&metastore.Extent{Object: "object", Blocks: make([]uint32, 1)})
	if l.fresh(times, 0) {
		t.Error("a block that was never checked is fresh")
	}
	l.note(times, 0)
	for age, want := range map[time.Duration]bool{-time.Second: false, 0: true, 9 * time.Second: true, 10 * time.Second: false, time.Hour: false} {
		now = checked.Add(age)
		if got := l.fresh(times, 0); got != want {
			t.Errorf("%s after the check: fresh %t", age, got)
		}
	}
}

// TestTooMany checks both bounds for a large sweep.
func TestTooMany(t *testing.T) {
	for _, c := range []struct {
		orphans, listed int
		want            bool
	}{
		{brakeCount, brakeCount, false},
		{brakeCount + 1, brakeCount + 1, true},
		{brakeCount + 1, (brakeCount + 1) * brakeShare, false},
		{brakeCount + 1, (brakeCount+1)*brakeShare - 1, true},
	} {
		testenv.Equal(t, tooMany(c.orphans, c.listed), c.want, "%d of %d", c.orphans, c.listed)
	}
}

// TestLargestPart checks that parts may end exactly at a blob's maximum size.
func TestLargestPart(t *testing.T) {
	u := metastore.Upload{PartSize: MaxPartSize}
	last := int(MaxSize/MaxPartSize) - 1
	testenv.Is(t, checkPart(u, last, MaxPartSize), nil, "the last part")
	if err := checkPart(u, last+1, 1); err == nil {
		t.Error("a byte after the last part was accepted")
	}
}

// TestLowerAlnum checks every byte.
func TestLowerAlnum(t *testing.T) {
	for c := range 256 {
		if got, want := isLowerAlnum(byte(c)), strings.IndexByte("abcdefghijklmnopqrstuvwxyz0123456789", byte(c)) >= 0; got != want {
			t.Errorf("byte %d: %t", c, got)
		}
	}
}

// TestRetriesAreBounded checks that a retry replaces another only if there are too many, and that
// one that is as late as possible is not due.
func TestRetriesAreBounded(t *testing.T) {
	r := newRetries()
	now := time.Unix(1_000_000, 0)
	ids := make([]metastore.ContentID, maxRetries+1)
	for i := range ids {
		ids[i] = metastore.NewContentID(now)
		if i < maxRetries {
			r.set(ids[i], retry{again: now.Add(longestPause)})
		}
	}
	r.set(ids[0], retry{again: now.Add(longestPause)})
	if len(r.contents) != maxRetries {
		t.Errorf("%d retries after one was set again, want %d", len(r.contents), maxRetries)
	}
	if due := r.due([]metastore.ContentID{ids[0]}, now); len(due) != 0 {
		t.Error("a retry is due before its time")
	}
	if due := r.due([]metastore.ContentID{ids[0]}, now.Add(longestPause)); len(due) != 1 {
		t.Error("a retry is not due at its time")
	}
	r.set(ids[maxRetries], retry{again: now})
	if _, ok := r.contents[ids[maxRetries]]; !ok || len(r.contents) != maxRetries {
		t.Errorf("%d retries after one more, want %d (it is one of them: %t)", len(r.contents), maxRetries, ok)
	}
}

// TestChecksumsOfUnalignedReads checks that the checksums of blocks do not depend on how much is
// read at a time.
func TestChecksumsOfUnalignedReads(t *testing.T) {
	content := make([]byte, 5*integrity.BlockSize/2)
	for i := range content {
		content[i] = byte(i * 7 >> 5)
	}
	var want []uint32
	for block := range slices.Chunk(content, integrity.BlockSize) {
		want = append(want, integrity.Sum(block))
	}
	src := &extentSource{src: bytes.NewReader(content), left: int64(len(content))}
	p := make([]byte, 700_001)
	for {
		if _, err := src.Read(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got := src.blocks(); !slices.Equal(got, want) {
		t.Errorf("checksums %x, want %x", got, want)
	}
}

// TestWholeBodyEnds checks that a body of its declared length ends without an error.
func TestWholeBodyEnds(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	body := &bodyReader{src: strings.NewReader("abc"), now: func() time.Time { return now }, deadline: now, declared: 3, crc64: checksum.New()}
	if got, err := io.ReadAll(body); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
}
