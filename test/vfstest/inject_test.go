package vfstest_test

import (
	"errors"
	"syscall"
	"testing"

	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/test/vfstest"
)

// TestInject checks which bytes a write has stored if a fault strikes before it, after it, or
// halfway.
func TestInject(t *testing.T) {
	for _, tc := range []struct {
		kind fault.Kind
		want string // of a write of "abcdef" that fails
	}{{fault.Fail, ""}, {fault.Tear, "abc"}, {fault.Lose, "abcdef"}} {
		t.Run(string(tc.kind), func(t *testing.T) {
			c := vfstest.NewCrash()
			point := &vfstest.Fault{
				K: 1, Kind: tc.kind, Err: syscall.EIO,
				Match: func(op vfstest.Op) bool { return op.Kind == vfstest.KindWrite },
			}
			f := testenv.Must(vfstest.Inject(c, point).Create("/f"))(t)
			_, err := f.Write(nil)
			wantErr(t, err, nil)
			if point.Struck() {
				t.Fatal("the fault struck too early")
			}
			n, err := f.Write([]byte("abcdef"))
			wantErr(t, err, syscall.EIO)
			if got := vfstest.Read(t, c, "/f"); got != tc.want || n != len(got) {
				t.Fatalf("wrote %q, reported %d, want %q", got, n, tc.want)
			}
			_, err = f.Write([]byte("!"))
			wantErr(t, err, nil)
			if !point.Struck() {
				t.Fatal("the fault did not strike")
			}
		})
	}
	t.Run("open after", func(t *testing.T) {
		c := vfstest.NewCrash()
		point := &vfstest.Fault{Kind: fault.Lose, Err: syscall.EIO}
		if f, err := vfstest.Inject(c, point).Create("/f"); f != nil || !errors.Is(err, syscall.EIO) {
			t.Fatalf("%v, %v", f, err)
		}
		if got := vfstest.Read(t, c, "/f"); got != "" {
			t.Fatalf("content %q", got)
		}
	})
}
