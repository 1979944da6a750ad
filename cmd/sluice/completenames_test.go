package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
)

// TestNamesAreBounded checks that no names are completed, and no error is printed, if there are
// more than a shell should show, or if the server refuses, does not answer, or is none.
func TestNamesAreBounded(t *testing.T) {
	names := 0
	hanging := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case names < 0:
			<-hanging
		case names == 0:
			w.WriteHeader(http.StatusForbidden)
		default:
			first := 0
			if r.URL.Query().Has("after") {
				first = 1000
			}
			var prefixes []string
			for i := first; i < min(names, first+1000); i++ {
				prefixes = append(prefixes, fmt.Sprintf(`"n%04d/"`, i))
			}
			next := ""
			if names > first+1000 {
				next = `,"next":"n0999/"`
			}
			if _, err := fmt.Fprintf(w, `{"blobs":[],"prefixes":[%s]%s}`, strings.Join(prefixes, ","), next); err != nil {
				t.Error(err)
			}
		}
	}))
	defer s.Close()
	defer close(hanging)
	for _, test := range []struct{ stored, want int }{{1, 1}, {1000, 1000}, {1001, 0}, {0, 0}, {-1, 0}} {
		names = test.stored
		r := sluice("completion", "words", "--", "ls", "--url", s.URL, "team/n")
		testenv.Equal(t, r.code, cli.ExitOK, "the exit code with %d names", test.stored)
		testenv.Equal(t, r.stderr, "", "the error with %d names", test.stored)
		testenv.Equal(t, strings.Count(r.stdout, "\n"), test.want, "the candidates of %d names", test.stored)
	}
	r := sluice("completion", "words", "--", "ls", "--url", "http://127.0.0.1:1", "team/n")
	testenv.Equal(t, r, ran{}, "without a server")
}

// TestWhichOperandsAreRemote checks for which operands a server is asked.
func TestWhichOperandsAreRemote(t *testing.T) {
	p := testenv.Must(newParser(newCommands()))(t)
	for line, want := range map[string]string{
		"ls team/a":           "team/a",
		"ls team":             "", // the accounts of a server are not known to everybody
		"ls team/a team/b":    "",
		"stat team/a team/b":  "team/b",
		"put team/a":          "", // a file
		"put file team/a":     "team/a",
		"put f g team/a":      "team/a",
		"get team/a":          "team/a",
		"get team/a team/b":   "team/b",
		"mv team/a team/b":    "team/b",
		"cp :team/a":          "team/a",
		"cp file prod:team/a": "prod:team/a",
		"cp ./team/a":         "",
		"cp team/a":           "team/a",
		"cp internal/a":       "", // a folder here
		"ls prod:team/a":      "prod:team/a",
		"sync dir :team/":     "team/",
		"sync dir :team/ :x/": "",
		"serve team/a":        "",
		"upload file team/a":  "team/a",
	} {
		words := strings.Fields(line)
		command := leafOf(childOf(p.kong.Model.Node, words[0]))
		got := ""
		if of, isRemote := remoteWord(command, len(words)-2, words[len(words)-1]); isRemote {
			got = of.Remote.String()
		}
		testenv.Equal(t, got, want, "what %q begins", line)
	}
}
