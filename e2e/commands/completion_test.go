package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestRemoteNamesAreCompleted completes names of blobs in each shell. Names are quoted, and never
// evaluated.
func TestRemoteNamesAreCompleted(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Shells)
	s := e2e.Start(t, e2e.Options{})
	for _, name := range []string{"photos/a", "photos/b", "plain", "two%20words", "$(touch%20ran)", "\u202eodd"} {
		s.Must(204, "PUT", "/v1/blobs/team/"+name, []byte("x"))
	}
	words := func(args ...string) string {
		r := e2e.SluiceRuns(t, append([]string{"completion", "words", "--"}, args...)...)
		testenv.Equal(t, r.Stderr, "", "the errors of %q", args)
		return strings.Join(strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n"), "|")
	}
	for line, want := range map[string]string{
		"ls --url URL team/p":        "team/photos/|team/plain",
		"ls --url=URL team/photos/":  "team/photos/a|team/photos/b",
		"cp --url URL file :team/pl": ":team/plain",
		"cp file --url URL :team/pl": ":team/plain",
		"get -r --url URL team/":     "team/$(touch ran)|team/photos/|team/plain|team/two words",
		"put --url URL team/p":       "",
		"ls --url URL none/":         "",
		"ls --url URL/wrong team/":   "",
	} {
		testenv.Equal(t, words(strings.Fields(strings.ReplaceAll(line, "URL", s.URL))...), want, "the candidates of %q", line)
	}

	dir := t.TempDir()
	binary := filepath.Join(dir, "sluice")
	testenv.OK(t, os.Symlink(e2e.Sluice, binary))
	const bash = `source "$1"; complete_line() { COMP_LINE=$1; COMP_POINT=${#COMP_LINE}; _sluice; printf '%s|' "${COMPREPLY[@]}"; }
complete_line "$2 stat team/p"; complete_line "$2 stat team/two\ w"; complete_line "$2 stat team/\$"; complete_line "$2 cp file :team/pl"`
	const zsh = `autoload -U compinit; compinit -D; source "$1"
compadd() { while [[ $1 != -- ]]; do shift; done; shift; for c; do print -rn -- "$c|"; done }
complete_words() { words=("$@"); CURRENT=$#words; _sluice }
complete_words "$2" stat team/p; complete_words "$2" stat 'team/two\ w'; complete_words "$2" stat 'team/\$'; complete_words "$2" cp file :team/pl`
	const fish = `source $argv[1]; set PATH (path dirname $argv[2]) $PATH
for line in 'sluice stat team/p' 'sluice stat team/two\ w' 'sluice stat team/\$' 'sluice cp file :team/pl'
    printf '%s|' (complete -C $line)
end`
	for shell, test := range map[string]struct {
		args []string
		want string
	}{
		"bash": {[]string{"--norc", "-c", bash, "bash"}, `team/photos/|team/plain|team/two\ words|team/\$\(touch\ ran\)|team/plain|`},
		"zsh":  {[]string{"-f", "-c", zsh, "zsh"}, `team/photos/|team/plain|team/two words|team/$(touch ran)|:team/plain|`},
		"fish": {[]string{"--no-config", "-c", fish}, `team/photos/|team/plain|team/two words|team/$(touch ran)|:team/plain|`},
	} {
		script := filepath.Join(dir, "sluice."+shell)
		testenv.OK(t, os.WriteFile(script, []byte(e2e.SluiceRuns(t, "completion", shell).Stdout), 0o600))
		command := exec.CommandContext(t.Context(), shell, append(test.args, script, binary)...)
		command.Dir = dir
		command.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C.UTF-8", "SLUICE_URL="+s.URL)
		out, err := command.CombinedOutput()
		testenv.OK(t, err)
		testenv.Equal(t, string(out), test.want, "the completion of %s", shell)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a name was evaluated")
	}
}
