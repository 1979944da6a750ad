package blob

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/checksum"
	"sluice/internal/testenv"
	"sluice/metastore"
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

// TestCheckExtent checks that an extent must have one checksum for each of at most 64 blocks.
func TestCheckExtent(t *testing.T) {
	for _, c := range []struct {
		size   int64
		blocks int
		want   bool
	}{
		{1, 1, true},
		{1, 0, false},
		{1, 2, false},
		{blockSize, 1, true},
		{blockSize + 1, 1, false},
		{blockSize + 1, 2, true},
		{maxBlocks * blockSize, maxBlocks, true},
		{maxBlocks*blockSize + 1, maxBlocks + 1, false},
	} {
		if err := checkExtent(&metastore.Extent{Size: c.size, Blocks: make([]uint32, c.blocks)}); (err == nil) != c.want {
			t.Errorf("%d bytes with %d checksums: %v", c.size, c.blocks, err)
		}
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

// TestMalformedEpochs checks that text and names that belong to no epoch are refused.
func TestMalformedEpochs(t *testing.T) {
	e := newEpoch(7)
	if got, err := parseEpoch(e.String()); err != nil || got != e {
		t.Errorf("%q was parsed as %+v, %v", e, got, err)
	}
	for _, text := range []string{"", "x " + e.nonce, "0 " + e.nonce, "7", "7 ", "7 " + e.nonce[1:], "7 " + e.nonce + "x"} {
		if got, err := parseEpoch(text); err == nil {
			t.Errorf("%q was parsed as %+v", text, got)
		}
	}
	for _, name := range []bytestore.Name{epochName(7), claimName(7)} {
		if n, ok := epochOfName(name); !ok || n != 7 {
			t.Errorf("%s: %d, %t", name, n, ok)
		}
	}
	for _, name := range []bytestore.Name{"", epochPrefix, epochPrefix + "x-owner", "7-owner"} {
		if n, ok := epochOfName(name); ok {
			t.Errorf("%s is of epoch %d", name, n)
		}
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
	content := make([]byte, 5*blockSize/2)
	for i := range content {
		content[i] = byte(i * 7 >> 5)
	}
	var want []uint32
	for block := range slices.Chunk(content, blockSize) {
		want = append(want, blockSum(block))
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
