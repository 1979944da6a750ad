package localfs

import (
	"errors"
	"testing"

	"sluice/bytestore"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// TestCoverReservesTheDifference checks that a Put reserves only bytes that its reservation lacks,
// so that it can fill the disk to the last byte.
func TestCoverReservesTheDifference(t *testing.T) {
	disk := vfstest.NewCrash()
	disk.Limit(15, 0)
	testenv.OK(t, disk.Mkdir("/objects"))
	s := testenv.Must(newSpace(disk, "/objects", -1))(t)
	r, err := s.reserve(10)
	testenv.OK(t, err)
	if err := r.cover(16); !errors.Is(err, bytestore.ErrNoSpace) || s.outstanding != 10 {
		t.Errorf("one byte too many: %v, %d reserved", err, s.outstanding)
	}
	if err := r.cover(15); err != nil || s.outstanding != 15 {
		t.Errorf("all that fits: %v, %d reserved", err, s.outstanding)
	}
	if r.release(); s.outstanding != 0 {
		t.Errorf("%d reserved afterwards", s.outstanding)
	}
}
