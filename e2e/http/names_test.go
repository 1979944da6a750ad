package http

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"sluice/e2e"
	"sluice/internal/testenv"
)

// vector is a blob name as the public client sends it.
type vector struct {
	ID         string  `json:"id"`
	Name       string  `json:"name"`
	Repeat     []any   `json:"name_repeat"` // a text and a repeat count
	GetTarget  *string `json:"get_request_target"`
	SameTarget bool    `json:"path_equals_naive_encoding"`
}

// nameVectors reads the names, and expands those that the file abridges.
func nameVectors(t *testing.T) []vector {
	t.Helper()
	encoded, err := os.ReadFile("../../wire/testdata/client-http.json")
	testenv.OK(t, err)
	var file struct {
		Names []vector `json:"names"`
	}
	testenv.OK(t, json.Unmarshal(encoded, &file))
	for i := range file.Names {
		v := &file.Names[i]
		if v.Repeat != nil {
			v.Name = strings.Repeat(v.Repeat[0].(string), int(v.Repeat[1].(float64)))
		}
		switch v.ID {
		case "len1025":
			v.Name = strings.Repeat("x", 1025)
		case "len513emoji":
			v.Name = strings.Repeat("😀", 513)
		case "lone":
			v.Name = "\xed\xa0\x80x" // the surrogate as a lax encoder would encode it
		}
	}
	if len(file.Names) < 40 {
		t.Fatalf("only %d names", len(file.Names))
	}
	return file.Names
}

// validName reports whether the rules allow a blob name.
func validName(name string) bool {
	units := len(utf16.Encode([]rune(name)))
	control := strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f })
	return utf8.ValidString(name) && units >= 1 && units <= 1024 && !control && !strings.HasSuffix(name, "/")
}

// TestNames stores a blob under every allowed name, by PUT and in parts, and reads it back under
// several encodings of that name. The server must refuse the other names.
func TestNames(t *testing.T) { overEachProtocol(t, testNames) }

func testNames(t *testing.T, s *e2e.Server) {
	var stored []string
	for i, v := range nameVectors(t) {
		if !validName(v.Name) {
			t.Run("refused/"+v.ID, func(t *testing.T) { refuseName(t, s, v) })
			continue
		}
		stored = append(stored, v.Name)
		t.Run("kept/"+v.ID, func(t *testing.T) { keepName(t, s, v, uint64(i)) })
	}
	if len(stored) < 35 {
		t.Errorf("only %d names were stored", len(stored))
	}
	slices.Sort(stored)
	for _, account := range []string{"by-put", "by-parts"} {
		if got := s.Names(account); !slices.Equal(got, stored) {
			t.Errorf("the listing of %s is %q, want %q", account, got, stored)
		}
	}
	for _, name := range stored {
		s.Must(204, "DELETE", e2e.BlobTarget("by-put", name), nil)
	}
	if got := s.Names("by-put"); len(got) != 0 {
		t.Errorf("after deleting all blobs the account has %q", got)
	}
}

func keepName(t *testing.T, s *e2e.Server, v vector, seed uint64) {
	at := *s
	at.T = t
	byPut, byParts := e2e.Content(seed, 100), e2e.Content(seed+1000, 1500)
	target := e2e.BlobTarget("by-put", v.Name)
	if v.SameTarget && v.GetTarget != nil {
		want := strings.Replace(*v.GetTarget, "/v1/blobs/0x1/", "/v1/blobs/by-put/", 1)
		if target != want {
			t.Errorf("this test sends %q where the client sends %q", target, want)
		}
	}
	at.Must(204, "PUT", target, byPut)
	at.Upload("by-parts", v.Name, byParts, 1000)
	for account, want := range map[string][]byte{"by-put": byPut, "by-parts": byParts} {
		spellings := []string{e2e.BlobTarget(account, v.Name), "/v1/blobs/" + account + "/" + e2e.EscapeAll(v.Name)}
		for _, spelling := range spellings {
			if r := at.Do("GET", spelling, nil); r.Status != 200 || e2e.Digest(r.Body) != e2e.Digest(want) {
				t.Errorf("GET %.100q: %v, want the blob", spelling, r)
			}
		}
	}
}

func refuseName(t *testing.T, s *e2e.Server, v vector) {
	at := *s
	at.T = t
	if s.Proxied && strings.Contains(v.Name, "\x00") {
		at.Must(400, "PUT", e2e.BlobTarget("by-put", v.Name), []byte("x"))
		return
	}
	e2e.CheckProblem(t, at.Do("PUT", e2e.BlobTarget("by-put", v.Name), []byte("x")), 400, "bad_name")
	e2e.CheckProblem(t, at.Do("PUT", "/v1/blobs/by-put/"+e2e.EscapeAll(v.Name), []byte("x")), 400, "bad_name")
	name := string(e2e.AsJSON(t, v.Name))
	if v.ID == "lone" {
		name = `"\ud800x"`
	}
	body := fmt.Sprintf(`{"rawAccount":"by-parts","rawBlobName":%s,"rawPartSize":1000}`, name)
	e2e.CheckProblem(t, at.Do("POST", "/v1/multipart-uploads", []byte(body)), 400, "")
}
