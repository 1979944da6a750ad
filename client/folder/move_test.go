package folder_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"sluice/client"
	"sluice/client/folder"
)

// moves runs a batch of moves.
func moves(ctx context.Context, o folder.Options, add func(*folder.Batch) error) (folder.Summary, error) {
	b := folder.NewBatch(o)
	defer func() { check(b.Close()) }()
	if err := add(b); err != nil {
		return folder.Summary{}, err
	}
	return b.Run(ctx)
}

// TestMove moves the blobs below a prefix, and single ones.
func TestMove(t *testing.T) {
	s := newService(t)
	s.store(map[string]string{"dir/a": "a", "dir/sub/b": "bb", "other": "x"})
	below := func(b *folder.Batch) error { return b.Move(t.Context(), s.team("dir"), s.team("new/")) }
	one := func(b *folder.Batch) error {
		b.MoveBlob(folder.Item{Client: s.Client, Account: "team", Name: "other"}, folder.Item{Client: s.Client, Account: "second", Name: "c"})
		return nil
	}
	for _, add := range []func(b *folder.Batch) error{below, one} {
		got, err := moves(t.Context(), folder.Options{DryRun: true}, add)
		if err != nil || got.Moved == 0 {
			t.Errorf("a dry run: %+v, %v", got, err)
		}
	}
	wantNames(t, s.names("team"), "dir/a", "dir/sub/b", "other")
	wantRun(moves(t.Context(), folder.Options{}, below))(t, "a prefix", folder.Summary{Moved: 2}, nil)
	wantRun(moves(t.Context(), folder.Options{}, one))(t, "a blob", folder.Summary{Moved: 1}, nil)
	wantNames(t, s.names("team"), "new/a", "new/sub/b")
	wantNames(t, s.names("second"), "c")
	wantRun(moves(t.Context(), folder.Options{}, below))(t, "nothing", folder.Summary{}, folder.ErrEmpty)
	for _, to := range []string{"new", "new/sub/", "", "new/x/"} {
		_, err := moves(t.Context(), folder.Options{}, func(b *folder.Batch) error { return b.Move(t.Context(), s.team("new/"), s.team(to)) })
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("new/ into %q: %v", to, err)
		}
	}
	for _, dryRun := range []bool{false, true} {
		got, err := moves(t.Context(), folder.Options{DryRun: dryRun}, one)
		moved, known := errors.AsType[*folder.NoSourceError](err)
		if !errors.Is(err, client.ErrNotFound) || got.Failed != 1 || !known || moved.Target.Name != "c" || moved.Target.LastModified.IsZero() {
			t.Errorf("a blob that was moved: %+v, %v", got, err)
		}
	}
	got, err := moves(t.Context(), folder.Options{}, func(b *folder.Batch) error {
		b.MoveBlob(s.item("none"), s.item("nor this"))
		return nil
	})
	if _, known := errors.AsType[*folder.NoSourceError](err); !errors.Is(err, client.ErrNotFound) || got.Failed != 1 || known {
		t.Errorf("a blob that never was: %+v, %v", got, err)
	}
}

// TestMoveGoesOn interrupts the move of a prefix. The next run moves the rest.
func TestMoveGoesOn(t *testing.T) {
	s := newService(t)
	files := map[string]string{}
	var want []string
	for i := range 20 {
		files[fmt.Sprintf("dir/%02d", i)] = "text"
		want = append(want, fmt.Sprintf("new/%02d", i))
	}
	s.store(files)
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		if r.Method == http.MethodPost {
			if sent++; sent == 4 {
				cancel()
			}
		}
	})
	o := folder.Options{Concurrency: 1}
	got, err := moves(ctx, o, func(b *folder.Batch) error { return b.Move(ctx, s.team("dir/"), s.team("new/")) })
	if !errors.Is(err, context.Canceled) || got.Left == 0 || got.Total() != 20 {
		t.Fatalf("%+v, %v", got, err)
	}
	s.setHook(nil)
	got, err = moves(t.Context(), o, func(b *folder.Batch) error { return b.Move(t.Context(), s.team("dir/"), s.team("new/")) })
	if err != nil || got.Moved == 0 || got.Moved > 16 {
		t.Errorf("the next run: %+v, %v", got, err)
	}
	wantNames(t, s.names("team"), want...)
}
