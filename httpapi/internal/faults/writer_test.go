package faults

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCutWriter(t *testing.T) {
	for _, test := range []struct {
		limit  int64
		writes []string
		sent   string
		broken bool
	}{
		{0, []string{"abc"}, "", true},
		{2, []string{"abc"}, "ab", true},
		{3, []string{"abc"}, "abc", false},
		{4, []string{"abc", "def", "ghi"}, "abcd", true},
		{9, []string{"abc", "def", "ghi"}, "abcdefghi", false},
		{5, nil, "", false},
	} {
		recorder := httptest.NewRecorder()
		w := NewWriter(t.Context(), recorder, Fault{Kind: Cut, Bytes: test.limit})
		w.WriteHeader(http.StatusPartialContent)
		var err error
		for _, text := range test.writes {
			var n int
			if n, err = w.Write([]byte(text)); err != nil {
				break
			}
			if n != len(text) {
				t.Errorf("cut %d: wrote %d of %d bytes without an error", test.limit, n, len(text))
			}
		}
		if recorder.Body.String() != test.sent || w.Broken() != test.broken || errors.Is(err, ErrCut) != test.broken || recorder.Code != http.StatusPartialContent {
			t.Errorf("cut %d of %q: sent %q, broken %t, error %v", test.limit, test.writes, recorder.Body, w.Broken(), err)
		}
	}
}

func TestDroppedResponse(t *testing.T) {
	recorder := httptest.NewRecorder()
	w := NewWriter(t.Context(), recorder, Fault{Kind: DropReply})
	w.WriteHeader(http.StatusTeapot)
	n, err := w.Write([]byte("abc"))
	if n != 3 || err != nil || !w.Broken() {
		t.Errorf("Write returns %d, %v; broken %t", n, err, w.Broken())
	}
	if err := http.NewResponseController(w).Flush(); err != nil || recorder.Code != http.StatusOK || recorder.Body.Len() > 0 || recorder.Flushed {
		t.Errorf("something was sent: %+v, %v", recorder, err)
	}
}

// TestSlowWriter checks the rate, that the first bytes are sent immediately, and that the request's
// end ends the response.
func TestSlowWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		recorder := httptest.NewRecorder()
		w := NewWriter(ctx, recorder, Fault{Kind: Slow, Bytes: 100})
		began := time.Now()
		if n, err := w.Write([]byte(strings.Repeat("x", 1000))); n != 1000 || err != nil || time.Since(began) != 10*time.Second || !recorder.Flushed {
			t.Errorf("%d bytes in %v, %v", n, time.Since(began), err)
		}
		time.AfterFunc(time.Second+time.Millisecond, cancel)
		if n, err := w.Write([]byte(strings.Repeat("x", 1000))); n != 110 || !errors.Is(err, context.Canceled) || w.Broken() {
			t.Errorf("%d bytes before the request ended, %v", n, err)
		}
		slowest := NewWriter(t.Context(), recorder, Fault{Kind: Slow, Bytes: 1})
		began = time.Now()
		if n, err := slowest.Write([]byte("xyz")); n != 3 || err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("%d bytes in %v, %v", n, time.Since(began), err)
		}
	})
}
