package s3_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/bytestore"
	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

// TestListPages lists several pages of 1,000 objects: all of them in order, from any position, and
// without requesting more pages than the caller needs.
func TestListPages(t *testing.T) {
	s, aside, w := onWire(t, s3.Options{})
	const objects, putters = 2100, 20
	names := make([]bytestore.Name, objects)
	errs := make([]error, putters)
	var wg sync.WaitGroup
	for p := range putters {
		wg.Go(func() {
			for i := p; i < objects; i += putters {
				names[i] = newName()
				errs[p] = errors.Join(errs[p], s.Put(t.Context(), names[i], strings.NewReader(""), 0))
			}
		})
	}
	wg.Wait()
	testenv.OK(t, errors.Join(errs...))
	slices.Sort(names)

	from := func(after bytestore.Name, n int) (got []bytestore.Name, requests int) {
		t.Helper()
		w.handle(nil)
		stop := errors.New("stop")
		err := s.List(t.Context(), after, func(o bytestore.Object) error {
			if got = append(got, o.Name); len(got) == n {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			t.Fatal(err)
		}
		return got, len(w.requests())
	}
	for _, tc := range []struct{ skip, n, requests int }{
		{0, objects, 3}, {0, 1, 1}, {0, 1000, 1}, {0, 1001, 2}, {999, objects - 999, 2}, {1000, objects - 1000, 2}, {2099, objects, 1},
	} {
		after := bytestore.Name("")
		if tc.skip > 0 {
			after = names[tc.skip-1]
		}
		got, requests := from(after, tc.n)
		if want := names[tc.skip:min(objects, tc.skip+tc.n)]; !slices.Equal(got, want) || requests != tc.requests {
			t.Errorf("%d after %d: %d names by %d requests, want %d by %d", tc.n, tc.skip, len(got), requests, len(want), tc.requests)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	err := aside.List(ctx, "", func(bytestore.Object) error {
		if seen++; seen == 1000 {
			cancel()
		}
		return nil
	})
	wantErr(t, err, context.Canceled)
	testenv.Equal(t, seen, 1000, "objects listed after the context ended at 1000")
}

// TestOthersNamesAreNotListed checks that in a shared bucket only names directly under the prefix
// that are valid names are objects.
func TestOthersNamesAreNotListed(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	var names []bytestore.Name
	var stores []*s3.Store
	for _, prefix := range []string{"", "/one", "/one/two", "/one-two", "/on"} {
		s := mustOpen(t, parse(t, "s3://%s%s?endpoint=http://%s", server.Bucket, prefix, server.Addr), s3.Options{})
		stores, names = append(stores, s), append(names, mustPut(t, s, nil))
	}
	for i, s := range stores {
		if got := list(t, s); !slices.Equal(got, names[i:i+1]) {
			t.Errorf("store %d lists %v, want %v", i, got, names[i])
		}
	}
}
