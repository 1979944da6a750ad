package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

func TestCandidates(t *testing.T) {
	ownContexts(t)
	must(t, "context", "add", "prod", "http://h")
	must(t, "context", "add", "play", "http://h")
	p := testenv.Must(newParser(newCommands()))(t)
	for line, want := range map[string]string{
		"ser":                          "serve",
		"key ":                         strings.Join(commandNames(childOf(p.kong.Model.Node, "key")), " "),
		"key sh":                       "show",
		"context li":                   "",
		"serve --prof":                 "--profile",
		"serve --profile ":             "local hosted",
		"serve --profile h":            "hosted",
		"serve --data ":                "",
		"serve --open-to-network --da": "--data",
		"info --context p":             "play prod",
		"nonsense":                     "",
		"completion ":                  "bash zsh fish",
	} {
		got := candidates(t.Context(), p.kong.Model.Node, strings.Split(line, " "))
		testenv.Equal(t, strings.Join(got, " "), want, "candidates of %q", line)
	}
	if all := candidates(t.Context(), p.kong.Model.Node, nil); !slices.Contains(all, "serve") {
		t.Errorf("of nothing: %q", all)
	}
}

// mainVariable is the environment variable with which this program is sluice instead of its tests.
const mainVariable = "SLUICE_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestCompletionScripts checks that the shells accept the scripts, and that bash and fish complete
// with the command as a process of its own.
func TestCompletionScripts(t *testing.T) {
	testenv.Require(t, testenv.Shells)
	dir := testenv.MemoryDir(t)
	binary := filepath.Join(dir, "sluice")
	testenv.OK(t, os.Symlink(testenv.Must(os.Executable())(t), binary))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			script := filepath.Join(dir, "sluice."+shell)
			testenv.OK(t, os.WriteFile(script, []byte(must(t, "completion", shell).stdout), 0o600))
			// bash warns of a locale that is not installed.
			environment := append(os.Environ(), "HOME="+testenv.MemoryDir(t), "LC_ALL=C.UTF-8", mainVariable+"=1")
			check := exec.Command(shell, "-n", script)
			check.Env = environment
			if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
				t.Fatalf("%s -n: %v\n%s", shell, err, out)
			}
			run := map[string][]string{
				"bash": {"--norc", "-c", `source "$1"; COMP_LINE="$2 key sh"; COMP_POINT=${#COMP_LINE}; _sluice; printf '%s\n' "${COMPREPLY[@]}"`, "bash", script, binary},
				"zsh":  {"-f", "-c", `autoload -U compinit; compinit -D; source "$1"; whence _sluice >/dev/null && echo show`, "zsh", script},
				"fish": {"--no-config", "-c", `source $argv[1]; set PATH ` + dir + ` $PATH; complete -C 'sluice key sh'`, script},
			}[shell]
			command := exec.Command(shell, run...)
			command.Env = environment
			out, err := command.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "show" {
				t.Errorf("%s completes %q, %v, want show", shell, out, err)
			}
		})
	}
}
