package contexts_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"sluice/cmd/sluice/internal/contexts"
	"sluice/test/testenv"
)

// environment returns a Getenv function.
func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

func fileOf(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	testenv.OK(t, os.WriteFile(name, []byte(text), 0o600))
	testenv.OK(t, os.Chmod(name, mode))
	return name
}

func loads(l *contexts.List) func() (*contexts.List, error) {
	return func() (*contexts.List, error) { return l, nil }
}

func TestChoice(t *testing.T) {
	const prod, team, local = "https://prod.example", "https://team.example", "http://localhost:1234"
	file := fileOf(t, "file-key\n", 0o600)
	list := &contexts.List{Current: "prod", Contexts: map[string]contexts.Context{"prod": {URL: prod, Key: "prod-key"}, "team": {URL: team}, "filed": {URL: team, KeyFile: file}}}
	none := &contexts.List{}
	type variables = map[string]string
	for name, test := range map[string]struct {
		choice    contexts.Choice
		variables variables
		list      *contexts.List
		want      contexts.Server
	}{
		"nothing":                          {list: none, want: contexts.Server{URL: contexts.DefaultURL, Source: "the default"}},
		"a key for the default":            {list: none, variables: variables{"SLUICE_KEY": "k"}, want: contexts.Server{URL: contexts.DefaultURL, Key: "k", Source: "the default"}},
		"the current context":              {list: list, want: contexts.Server{Context: "prod", URL: prod, Key: "prod-key", Source: "the current context, prod"}},
		"a context keeps its key":          {list: list, variables: variables{"SLUICE_KEY": "k"}, want: contexts.Server{Context: "prod", URL: prod, Key: "prod-key", Source: "the current context, prod"}},
		"a flag before the current one":    {list: list, choice: contexts.Choice{URL: local}, want: contexts.Server{URL: local, Source: "--url"}},
		"a variable before the current":    {list: list, variables: variables{"SLUICE_URL": local}, want: contexts.Server{URL: local, Source: "SLUICE_URL"}},
		"a context of a variable":          {list: list, variables: variables{"SLUICE_CONTEXT": "team", "SLUICE_KEY": "k"}, want: contexts.Server{Context: "team", URL: team, Key: "k", Source: "SLUICE_CONTEXT"}},
		"a URL flag before variables":      {list: list, choice: contexts.Choice{URL: local}, variables: variables{"SLUICE_URL": team, "SLUICE_CONTEXT": "team"}, want: contexts.Server{URL: local, Source: "--url"}},
		"a context flag before variables":  {list: list, choice: contexts.Choice{Context: "team"}, variables: variables{"SLUICE_URL": local, "SLUICE_CONTEXT": "prod"}, want: contexts.Server{Context: "team", URL: team, Source: "--context"}},
		"a key file before all":            {list: list, choice: contexts.Choice{KeyFile: file}, variables: variables{"SLUICE_KEY": "k"}, want: contexts.Server{Context: "prod", URL: prod, Key: "file-key", Source: "the current context, prod"}},
		"a key file of a variable":         {list: none, variables: variables{"SLUICE_KEY_FILE": file}, want: contexts.Server{URL: contexts.DefaultURL, Key: "file-key", Source: "the default"}},
		"a context with a key file":        {list: list, choice: contexts.Choice{Context: "filed"}, variables: variables{"SLUICE_KEY": "k"}, want: contexts.Server{Context: "filed", URL: team, Key: "file-key", Source: "--context"}},
		"an empty variable is not set":     {list: none, variables: variables{"SLUICE_URL": "", "SLUICE_CONTEXT": ""}, want: contexts.Server{URL: contexts.DefaultURL, Source: "the default"}},
		"a URL needs no file of contexts":  {choice: contexts.Choice{URL: local}, want: contexts.Server{URL: local, Source: "--url"}},
		"a variable needs no file of them": {variables: variables{"SLUICE_URL": local}, want: contexts.Server{URL: local, Source: "SLUICE_URL"}},
	} {
		test.choice.Getenv = environment(test.variables)
		got, err := test.choice.Choose(func() (*contexts.List, error) {
			if test.list == nil {
				t.Errorf("%s: the contexts were read", name)
			}
			return test.list, nil
		})
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, test.want)
		}
	}
	if got, err := contexts.Named("team", loads(list)); err != nil || got.Key != "" || got.URL != team {
		t.Errorf("the context of an operand: %+v, %v, want it without the key of the environment", got, err)
	}
}

func TestChoiceRefuses(t *testing.T) {
	open := fileOf(t, "key", 0o644)
	list := &contexts.List{Current: "prod", Contexts: map[string]contexts.Context{"prod": {URL: "https://prod.example"}}}
	type variables = map[string]string
	for want, test := range map[string]struct {
		choice    contexts.Choice
		variables variables
		list      *contexts.List
	}{
		"--url and --context both name a server: use one of them":                                                                               {choice: contexts.Choice{URL: "http://h", Context: "prod"}},
		"SLUICE_URL and SLUICE_CONTEXT both name a server: unset one of them, or use --url or --context":                                        {variables: variables{"SLUICE_URL": "http://h", "SLUICE_CONTEXT": "prod"}},
		"--context: there is no such context: test (there are prod)":                                                                            {choice: contexts.Choice{Context: "test"}, list: list},
		"SLUICE_CONTEXT: there is no such context: test (there are none yet: sluice context add NAME URL)":                                      {variables: variables{"SLUICE_CONTEXT": "test"}, list: &contexts.List{}},
		`--url: want the URL of a server, such as http://localhost:9090 or https://blobs.example.org/sluice, not "localhost:9090"`:              {choice: contexts.Choice{URL: "localhost:9090"}},
		`SLUICE_URL: want the URL of a server, such as http://localhost:9090 or https://blobs.example.org/sluice, not "ftp://h"`:                {variables: variables{"SLUICE_URL": "ftp://h"}},
		"--url: the URL of a server has no user or password: put the API key into SLUICE_KEY, a file or a context":                              {choice: contexts.Choice{URL: "https://u:canary@h"}},
		`--url: the URL of a server has neither a query nor a fragment: "https://h?a"`:                                                          {choice: contexts.Choice{URL: "https://h?a"}},
		"SLUICE_KEY: an API key consists of visible ASCII characters":                                                                           {variables: variables{"SLUICE_KEY": "canary\n"}, list: list},
		"--key-file: cannot read the API key: the file " + open + " has a key, and others may access it (mode 0644): chmod 600 " + open:         {choice: contexts.Choice{KeyFile: open}, list: list},
		`--context: "p" is not a name of a context: want 2 to 64 of A-Z, a-z, 0-9, ".", "_" and "-", of which the first is a letter or a digit`: {choice: contexts.Choice{Context: "p"}},
		"--key-file: the file " + fileName(t, &empty) + " has no API key":                                                                       {choice: contexts.Choice{KeyFile: empty}, list: list},
	} {
		if runtime.GOOS == "windows" && strings.Contains(want, "chmod") {
			continue
		}
		test.choice.Getenv = environment(test.variables)
		if got, err := test.choice.Choose(loads(test.list)); err == nil || err.Error() != want {
			t.Errorf("%+v, %v, want %s", got, err, want)
		}
	}
}

var empty string

func fileName(t *testing.T, to *string) string {
	*to = fileOf(t, " \n", 0o600)
	return *to
}

func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config", "sluice", "contexts.yaml")
	if l, err := contexts.Load(name); err != nil || len(l.Contexts) != 0 {
		t.Fatalf("a file that does not exist: %+v, %v", l, err)
	}
	update := func(change func(*contexts.List) error) {
		t.Helper()
		testenv.OK(t, contexts.Update(name, change))
	}
	update(func(l *contexts.List) error {
		return l.Add("prod", contexts.Context{URL: "https://prod.example/sluice", Key: "key"}, false)
	})
	update(func(l *contexts.List) error { return l.Add("team", contexts.Context{URL: "http://team"}, false) })
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the mode is %v, %v, want 0600", info.Mode(), err)
	}
	l, err := contexts.Load(name)
	if err != nil || l.Current != "prod" || l.Contexts["prod"] != (contexts.Context{URL: "https://prod.example/sluice", Key: "key"}) || strings.Join(l.Names(), " ") != "prod team" {
		t.Errorf("%+v, %v", l, err)
	}
	update(func(l *contexts.List) error { return l.Use("team") })
	update(func(l *contexts.List) error { return l.Remove("team") })
	if l, err := contexts.Load(name); err != nil || l.Current != "" || len(l.Contexts) != 1 {
		t.Errorf("after the current one was removed: %+v, %v", l, err)
	}
	before := testenv.Must(os.ReadFile(name))(t)
	for want, change := range map[string]func(*contexts.List) error{
		"there is no such context: x1 (there are prod)":               func(l *contexts.List) error { return l.Use("x1") },
		"there is no such context: x2 (there are prod)":               func(l *contexts.List) error { return l.Remove("x2") },
		"the context prod exists already: use --replace to change it": func(l *contexts.List) error { return l.Add("prod", contexts.Context{URL: "http://h"}, false) },
		"a context has a key or a key file, not both": func(l *contexts.List) error {
			return l.Add("x3", contexts.Context{URL: "http://h", Key: "k", KeyFile: "f"}, false)
		},
		`"c" is not a name of a context: want 2 to 64 of A-Z, a-z, 0-9, ".", "_" and "-", of which the first is a letter or a digit`: func(l *contexts.List) error {
			return l.Add("c", contexts.Context{URL: "http://h"}, false)
		},
	} {
		err := contexts.Update(name, change)
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	if after, err := os.ReadFile(name); err != nil || string(after) != string(before) {
		t.Errorf("a refused change has changed the file to %s, %v", after, err)
	}
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(entries) != 2 {
		t.Errorf("files remain: %v, %v", entries, err)
	}
}

func TestFileRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"contexts: {prod: {url: 'http://h', kay: x}}": "field kay not found",
		"current: prod":                                     "current: there is no such context: prod (there are none yet: sluice context add NAME URL)",
		"contexts: {prod: {url: nonsense}}":                 `the context prod: want the URL of a server`,
		"contexts: {p: {url: 'http://h'}}":                  `"p" is not a name of a context`,
		"contexts: [":                                       "correct or remove it",
		"contexts: {prod: {url: 'http://a', key: \"a b\"}}": "the context prod: an API key consists of visible ASCII characters",
	} {
		name := fileOf(t, text, 0o600)
		if l, err := contexts.Load(name); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %+v, %v, want an error that names the file and has %q", text, l, err, want)
		}
	}
	testenv.Require(t, testenv.Unix)
	const withKey, without = "contexts: {prod: {url: 'http://h', key: canary}}", "contexts: {prod: {url: 'http://h'}}"
	for _, mode := range []os.FileMode{0o660, 0o604, 0o620, 0o644} {
		name := fileOf(t, withKey, mode)
		want := fmt.Sprintf("the file %s has a key, and others may access it (mode %04o): chmod 600 %s", name, mode, name)
		if _, err := contexts.Load(name); err == nil || err.Error() != want {
			t.Errorf("mode %o: error %v, want %s", mode, err, want)
		}
		if _, err := contexts.Load(fileOf(t, without, mode)); err != nil {
			t.Errorf("mode %o without a key: %v", mode, err)
		}
	}
}

// TestConcurrentUpdates checks that no update that succeeded is lost.
func TestConcurrentUpdates(t *testing.T) {
	name := filepath.Join(t.TempDir(), "contexts.yaml")
	const updates = 8
	var group sync.WaitGroup
	errs := make([]error, updates)
	for i := range updates {
		group.Go(func() {
			errs[i] = contexts.Update(name, func(l *contexts.List) error {
				return l.Add(fmt.Sprintf("context%d", i), contexts.Context{URL: "http://h"}, false)
			})
		})
	}
	group.Wait()
	l := testenv.Must(contexts.Load(name))(t)
	succeeded := 0
	for i, err := range errs {
		if err == nil {
			succeeded++
		} else if want := "another command is changing the contexts: try again"; err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		if _, exists := l.Contexts[fmt.Sprintf("context%d", i)]; exists != (err == nil) {
			t.Errorf("update %d: error %v, but the context exists: %t", i, err, exists)
		}
	}
	if succeeded == 0 || errors.Join(errs...) != nil && succeeded == updates {
		t.Errorf("%d of %d updates succeeded", succeeded, updates)
	}
}

// TestOthersCannotChangeContexts checks that a file of contexts that another user has made is
// refused.
// Invariant 154.
func TestOthersCannotChangeContexts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "contexts.yaml")
	testenv.OK(t, os.WriteFile(name, []byte("contexts: {local: {url: \"http://localhost:9090\"}}\n"), 0o644))
	testenv.OK(t, testenv.Error(contexts.Load(name)))
	if os.Getuid() != 0 { // only root can make files of other users
		return
	}
	testenv.OK(t, os.Chown(name, 65534, 65534))
	if _, err := contexts.Load(name); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("error %v", err)
	}
}
