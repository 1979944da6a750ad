package folder_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/client"
	"sluice/client/folder"
	"sluice/test/testenv"
)

// TestServiceCopiesWithinItself checks that no bytes pass through this process if both names are
// the same client's, unless the service refuses it in a way that reading and storing need not meet.
func TestServiceCopiesWithinItself(t *testing.T) {
	s := newService(t)
	s.store(map[string]string{"a": "text", "sub/b": strings.Repeat("x", 50_000)})
	from := s.team("")
	for _, test := range []struct {
		name    string
		hook    func(http.ResponseWriter, *http.Request, http.Handler)
		through int // blobs that pass through this process
		want    error
	}{
		{"usual", nil, 0, nil},
		{"an earlier version", refusing(405, "method_not_allowed"), 2, nil},
		{"a key that must pay", refusing(403, "scope_missing"), 2, nil},
		{"a full quota", refusing(403, "quota_exceeded"), 0, client.ErrForbidden},
		{"a source that was replaced", refusing(412, "precondition_failed"), 0, client.ErrChanged},
	} {
		s.setHook(test.hook)
		want := folder.Summary{Copied: 2, Bytes: 50_004}
		to := folder.Prefix{Client: s.Client, Account: "other", Name: strings.ReplaceAll(test.name, " ", "-")}
		got, err := copyBlobs(t.Context(), from, to, folder.Options{Concurrency: 1})
		testenv.Is(t, err, test.want, "%s", test.name)
		if test.want == nil && got != want {
			t.Errorf("%s: %+v, want %+v", test.name, got, want)
		}
		testenv.Equal(t, s.requests("PUT"), test.through, "%s: blobs that were stored", test.name)
	}
	wantNames(t, s.names("other"), "a-key-that-must-pay/a", "a-key-that-must-pay/sub/b", "an-earlier-version/a", "an-earlier-version/sub/b", "usual/a", "usual/sub/b")
}
