package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/test/testenv"
)

// operandLines are command lines with every operand that is a blob or a file. In the first, %s is
// always remote, in the second always local, and in the third the other operand decides, too.
var operandLines = [3][]string{
	{"ls %s", "du %s", "du team/b %s", "find %s", "cat %s", "cat team/b %s", "stat %s", "rm %s", "share %s", "mv %s team/b", "mv team/b %s",
		"upload ls %s", "bench get %s", "get %s", "get %s ./x", "put ./x %s", "upload put ./x %s"},
	{"put %s team/b", "upload put %s team/b", "get team/b %s"},
	{"cp %s %s", "sync %s %s"},
}

// TestOperands checks which operands of each command are remote, whether or not there is a local
// folder with the account's name.
func TestOperands(t *testing.T) {
	p := testenv.Must(newParser(newCommands()))(t)
	for _, leaf := range p.kong.Model.Leaves(true) {
		listed := false
		for _, line := range append(append(operandLines[0], operandLines[1]...), operandLines[2]...) {
			listed = listed || strings.HasPrefix(line, pathOf(leaf)+" ")
		}
		for i, positional := range leaf.Positional {
			if plain, withContext := remoteKinds(leaf.Positional, i); (plain || withContext) && !listed {
				t.Errorf("%s has the operand %s, and no line", pathOf(leaf), positional.Name)
			}
		}
	}
	for text, want := range map[string]string{
		"team/a": "remote team/a", ":team/a": "remote team/a", "prod:team/a": "remote prod:team/a", "0x1/many/": "remote 0x1/many/", "team": "remote team/",
		"./team/a": `./team/a: the account must be an address or begin with one of a-z and 0-9: want ACCOUNT/NAME, such as team/photo.jpg`,
		"/team/a":  `"/team/a" has no account: want ACCOUNT/NAME, such as team/photo.jpg`,
		":/a":      `":/a" has no account: want ACCOUNT/NAME, such as team/photo.jpg`,
		"p:team/a": `"p:team/a": want ACCOUNT/NAME, or CONTEXT:ACCOUNT/NAME with the name of a context`,
		"http://h": `"http://h" is a URL: name the server by a context (sluice context add NAME URL), and write NAME:ACCOUNT/NAME`,
		"-":        `-/: the account must be an address or begin with one of a-z and 0-9: want ACCOUNT/NAME, such as team/photo.jpg`,
	} {
		checkOperands(t, p, operandLines[0], want, want, text)
		checkOperands(t, p, operandLines[1], "local "+text, "local "+text, text)
	}
	for _, row := range []struct{ source, target, want, wantIfFolder string }{
		{"d", "team/a/", "local d, remote team/a/", "local d, local team/a/"},
		{"./d", "team/a", "local ./d, remote team/a", "local ./d, local team/a"},
		{"../d", "team/", "local ../d, remote team/", "local ../d, local team/"},
		{"-", "team/a", "local -, remote team/a", "local -, local team/a"},
		{"team/a", "-", "remote team/a, local -", "local team/a, local -"},
		{"team/a", "x", "remote team/a, local x", "local team/a, local x"},
		{"team/a", "me/b", "remote team/a, remote me/b", "local team/a, remote me/b"},
		{"me/b", "team/a", "remote me/b, remote team/a", "remote me/b, local team/a"},
		{"team", "./x", "local team, local ./x", "local team, local ./x"},
		{"TEAM/a", "me/b", "local TEAM/a, remote me/b", "local TEAM/a, remote me/b"},
		// A colon makes the rest local, as before.
		{"team/a", ":me/b", "local team/a, remote me/b", "local team/a, remote me/b"},
		{":me/b", "team/a", "remote me/b, local team/a", "remote me/b, local team/a"},
		{"prod:me/b", "team/a", "remote prod:me/b, local team/a", "remote prod:me/b, local team/a"},
		{"d", "http://h", `"http://h" is a URL: name the server by a context (sluice context add NAME URL), and write NAME:ACCOUNT/NAME`, ""},
		{"d", ":/a", `":/a" has no account: want ACCOUNT/NAME, such as team/photo.jpg; a local file of that name is ./:/a`, ""},
	} {
		if row.wantIfFolder == "" {
			row.wantIfFolder = row.want
		}
		checkOperands(t, p, operandLines[2], row.want, row.wantIfFolder, row.source, row.target)
	}
}

// checkOperands parses lines without and with a local folder.
func checkOperands(t *testing.T, p *parser, lines []string, want, wantIfFolder string, words ...string) {
	t.Helper()
	var operands []any
	for _, word := range words {
		operands = append(operands, word)
	}
	for _, line := range lines {
		for folder, want := range map[string]string{"other": want, "team": wantIfFolder} {
			t.Chdir(testenv.MemoryDir(t))
			testenv.OK(t, os.Mkdir(folder, 0o700))
			args := strings.Fields(fmt.Sprintf(line, operands...))
			got := parsedOperands(p, args)
			if len(words) == 1 {
				for _, fixed := range []string{"remote team/b, ", ", remote team/b", "local ./x, ", ", local ./x", ", local ."} {
					if fixed != want {
						got = strings.TrimSuffix(strings.TrimPrefix(got, fixed), fixed)
					}
				}
			}
			testenv.Equal(t, got, want, "the operands of %q with a folder %s", args, folder)
		}
	}
}

// parsedOperands returns a command line's operands, or the error.
func parsedOperands(p *parser, args []string) string {
	command, err := p.parse(args)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, positional := range command.Selected().Positional {
		all = append(all, describeOperands(positional)...)
	}
	return strings.Join(all, ", ")
}

func describeOperands(positional *kong.Positional) (all []string) {
	add := func(o operand.Operand) {
		if o.Remote != nil {
			all = append(all, "remote "+o.Remote.String())
		} else {
			all = append(all, "local "+o.Path)
		}
	}
	switch of := positional.Target.Interface().(type) {
	case cli.RemoteOperand:
		add(operand.Operand{Remote: &of.Remote})
	case []cli.RemoteOperand:
		for _, one := range of {
			add(operand.Operand{Remote: &one.Remote})
		}
	case cli.Sources[cli.RemoteOperand]:
		for _, one := range of.All {
			add(operand.Operand{Remote: &one.Remote})
		}
	case cli.LocalOrRemote:
		add(of.Operand)
	case cli.Sources[cli.LocalOrRemote]:
		for _, one := range of.All {
			add(one.Operand)
		}
	case cli.Sources[string]:
		for _, one := range of.All {
			add(operand.Operand{Path: one})
		}
	case string:
		add(operand.Operand{Path: of})
	}
	return all
}
