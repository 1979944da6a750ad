package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire"
)

func named(name string) client.BlobName { return client.BlobName{Account: "team", Name: name} }

// A blob is copied, with another type, and then gets another name. No bytes are transferred.
func ExampleClient_Copy() {
	c, stop := example(serviceOptions{reads: access.ReadsPublic})
	defer stop()
	draft := client.BlobName{Account: "team", Name: "draft.txt"}
	_, err := c.Put(ctx, "team", "draft.txt", strings.NewReader("hello, world"), client.PutOptions{ContentType: "text/plain"})
	check(err)

	b, err := c.Copy(ctx, draft, client.BlobName{Account: "archive", Name: "1.md"}, client.CopyOptions{Replace: true, ContentType: "text/markdown"})
	check(err)
	fmt.Println(b.Name, b.Size, b.ContentType)
	b, err = c.Move(ctx, draft, client.BlobName{Account: "team", Name: "final.txt"}, client.MoveOptions{Target: client.TargetConditions{IfAbsent: true}})
	check(err)
	fmt.Println(b.Name, b.Size, b.ContentType)
	_, err = c.Head(ctx, "team", "draft.txt")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// 1.md 12 text/markdown
	// final.txt 12 text/plain
	// true
}

func TestCopyAndMove(t *testing.T) {
	t.Parallel()
	_, c := startServer(t)
	ctx := t.Context()
	body := bytes.Repeat([]byte("0123456789"), 10_000)
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	color := map[string]string{"color": "red"}
	first := testenv.Must(c.Put(ctx, "team", "a /\u00fc", bytes.NewReader(body), client.PutOptions{ContentType: "text/x-test", Metadata: color, Expires: expires}))(t)
	from := named("a /\u00fc")
	read := func(name string) client.Blob {
		t.Helper()
		r := testenv.Must(c.Get(ctx, "team", name, client.GetOptions{}))(t)
		got := testenv.Must(io.ReadAll(r))(t)
		testenv.OK(t, r.Close())
		if !bytes.Equal(got, body) {
			t.Errorf("%s has %d other bytes", name, len(got))
		}
		return r.Blob()
	}
	same := func(b client.Blob, name string, want client.Blob) {
		t.Helper()
		if b.Name != name || b.Size != int64(len(body)) || b.ETag != first.ETag || b.ContentType != want.ContentType || !maps.Equal(b.Metadata, want.Metadata) || !b.Expires.Equal(want.Expires) {
			t.Errorf("%s is %+v, want %+v", name, b, want)
		}
	}
	copied := testenv.Must(c.Copy(ctx, from, named("b/c"), client.CopyOptions{IfMatch: first.ETag, Target: client.TargetConditions{IfAbsent: true}}))(t)
	for _, b := range []client.Blob{copied, read("b/c")} {
		same(b, "b/c", client.Blob{ContentType: "text/x-test", Metadata: color})
	}
	replaced := testenv.Must(c.Copy(ctx, from, named("b/c"), client.CopyOptions{
		Target: client.TargetConditions{IfMatch: first.ETag}, Expires: expires, Replace: true, ContentType: "text/new", ContentLanguage: "de",
	}))(t)
	for _, b := range []client.Blob{replaced, read("b/c")} {
		same(b, "b/c", client.Blob{ContentType: "text/new", Expires: expires})
		testenv.Equal(t, b.ContentLanguage, "de", "the content's language")
	}
	moved := testenv.Must(c.Move(ctx, from, named("d"), client.MoveOptions{IfMatch: first.ETag}))(t)
	for _, b := range []client.Blob{moved, read("d")} {
		same(b, "d", client.Blob{ContentType: "text/x-test", Metadata: color, Expires: expires})
	}
	for name, one := range map[string]struct{ err, want error }{
		"copy of nothing":           {testenv.Error(c.Copy(ctx, from, named("e"), client.CopyOptions{})), client.ErrNotFound},
		"move of nothing":           {testenv.Error(c.Move(ctx, from, named("e"), client.MoveOptions{})), client.ErrNotFound},
		"copy of another version":   {testenv.Error(c.Copy(ctx, named("d"), named("e"), client.CopyOptions{IfMatch: `"x"`})), client.ErrPreconditionFailed},
		"move of another version":   {testenv.Error(c.Move(ctx, named("d"), named("e"), client.MoveOptions{IfMatch: `"x"`})), client.ErrPreconditionFailed},
		"copy over another version": {testenv.Error(c.Copy(ctx, named("d"), named("b/c"), client.CopyOptions{Target: client.TargetConditions{IfMatch: `"x"`}})), client.ErrPreconditionFailed},
		"move over a blob":          {testenv.Error(c.Move(ctx, named("d"), named("b/c"), client.MoveOptions{Target: client.TargetConditions{IfAbsent: true}})), client.ErrPreconditionFailed},
		"copy to no name":           {testenv.Error(c.Copy(ctx, named("d"), named(""), client.CopyOptions{})), client.ErrInvalid},
		"move from no account":      {testenv.Error(c.Move(ctx, client.BlobName{Name: "d"}, named("e"), client.MoveOptions{})), client.ErrInvalid},
	} {
		testenv.Is(t, one.err, one.want, "%s", name)
	}
	read("d")
}

// TestLostRepliesOfCopyAndMove loses the response to the first request. The second one must not
// fail because of the first one's effect, unless that cannot be known.
func TestLostRepliesOfCopyAndMove(t *testing.T) {
	t.Parallel()
	s, c := startServer(t)
	ctx := t.Context()
	lose := func() {
		lost := false
		s.setHook(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method != http.MethodPost || lost {
				next.ServeHTTP(w, r)
				return
			}
			lost = true
			next.ServeHTTP(&alteredWriter{ResponseWriter: w, alter: cutAfter(0)}, r)
		})
	}
	content := strings.Repeat("content", 100)
	testenv.OK(t, testenv.Error(c.Put(ctx, "team", "a", strings.NewReader(content), client.PutOptions{})))
	lose()
	testenv.OK(t, testenv.Error(c.Copy(ctx, named("a"), named("b"), client.CopyOptions{})))
	lose()
	once := client.TargetConditions{IfAbsent: true}
	testenv.Is(t, testenv.Error(c.Copy(ctx, named("a"), named("c"), client.CopyOptions{Target: once})), client.ErrOutcomeUnknown, "a copy that may have been made")
	lose()
	b := testenv.Must(c.Move(ctx, named("a"), named("d"), client.MoveOptions{Target: once}))(t)
	testenv.Equal(t, b.Size, int64(len(content)), "the size of the moved blob")
	testenv.Equal(t, s.requests(func(r request) bool { return r.method == http.MethodPost }), 2, "requests to move")
}

// TestMoveRepeatsOneKey checks that all attempts of a move have one key, and two moves have two.
func TestMoveRepeatsOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := respondJSON(200, wire.CopiedBlob{Account: "team", Blob: wire.Blob{Name: "b", Size: 3}})
		s, c := newScript(t, 3, fail(io.ErrUnexpectedEOF), problem(503, "overloaded", `,"retryable":true`), done, done)
		for range 2 {
			testenv.OK(t, testenv.Error(c.Move(t.Context(), named("a"), named("b"), client.MoveOptions{})))
		}
		keys := map[string]int{}
		for _, r := range s.sent {
			keys[r.Header.Get("Idempotency-Key")]++
		}
		if len(keys) != 2 || keys[""] > 0 {
			t.Errorf("the keys are %v", keys)
		}
	})
}

// TestWrongCopiesAreRefused checks that a response about another blob is not believed.
func TestWrongCopiesAreRefused(t *testing.T) {
	for name, made := range map[string]wire.CopiedBlob{
		"another name":  {Account: "team", Blob: wire.Blob{Name: "c"}},
		"no name":       {Account: "team"},
		"negative size": {Account: "team", Blob: wire.Blob{Name: "b", Size: -1}},
		"wrong ETag":    {Account: "team", Blob: wire.Blob{Name: "b", Size: 4, ETag: `"5-3377857006524257"`}},
		"long account":  {Account: strings.Repeat("a", 1<<16), Blob: wire.Blob{Name: "b"}},
	} {
		_, c := newScript(t, 1, respondJSON(200, made))
		testenv.Is(t, testenv.Error(c.Copy(t.Context(), named("a"), named("b"), client.CopyOptions{})), client.ErrBadResponse, "%s", name)
	}
}
