package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// Lines are commands with their operands. In the first %s is always remote, in the second always
// local, and in the third %s is two operands, and each decides about the other one.
var (
	remoteLines = []string{"ls|%s", "du|%s", "du|team/b %s", "find|%s", "cat|%s", "cat|team/b %s", "stat|%s", "rm|%s", "undelete|%s", "undelete|team/b %s", "lock|%s", "lock|team/b %s", "watch|%s", "share|%s", "mirror|%s team/b", "mirror|team/b %s", "webhook create|http://h/ %s", "mv|%s team/b", "mv|team/b %s",
		"upload ls|%s", "place show|%s", "place set|%s public", "place block|%s x", "place unblock|%s", "bench|get %s", "get|%s ./x", "put|./x %s", "upload put|./x %s"}
	localLines = []string{"put|%s team/b", "upload put|%s team/b", "get|team/b %s"}
	copyLines  = []string{"cp|%s", "sync|%s"}
)

// TestOperands checks which operands of each command are remote, whether or not there is a local
// folder with the account's name.
func TestOperands(t *testing.T) {
	p := testenv.Must(newParser(newCommands()))(t)
	for _, leaf := range p.kong.Model.Leaves(true) {
		listed := strings.Contains("\n"+strings.Join(append(remoteLines, copyLines...), "\n"), "\n"+pathOf(leaf)+"|")
		for i := range leaf.Positional {
			if plain, withContext := remoteKinds(leaf.Positional, i); (plain || withContext) && !listed {
				t.Errorf("%s has an operand, and no line", pathOf(leaf))
			}
		}
	}
	for text, want := range map[string]string{
		"team/a": "team/a", ":team/a": "team/a", "prod:team/a": "prod:team/a", "0x1/many/": "0x1/many/", "team": "team/",
		"./team/a": `./team/a: the account must be an address or begin with one of a-z and 0-9: want ACCOUNT/NAME, such as team/photo.jpg`,
		"/team/a":  `"/team/a" has no account: want ACCOUNT/NAME, such as team/photo.jpg`,
		":/a":      `":/a" has no account: want ACCOUNT/NAME, such as team/photo.jpg`,
		"p:team/a": `"p:team/a": want ACCOUNT/NAME, or CONTEXT:ACCOUNT/NAME with the name of a context`,
		"http://h": `"http://h" is a URL: name the server by a context (sluice context add NAME URL), and write NAME:ACCOUNT/NAME`,
		"-":        `-/: the account must be an address or begin with one of a-z and 0-9: want ACCOUNT/NAME, such as team/photo.jpg`,
	} {
		checkOperands(t, p, remoteLines, text, want, want)
		checkOperands(t, p, localLines, text, text, text)
	}
	// A remote operand begins with a colon, unless it has a context.
	for operands, want := range map[string][2]string{ // without and with a folder team
		"d team/a/":   {"d :team/a/", "d team/a/"},
		"./d team/a":  {"./d :team/a", "./d team/a"},
		"../d team/":  {"../d :team/", "../d team/"},
		"- team/a":    {"- :team/a", "- team/a"},
		"team/a -":    {":team/a -", "team/a -"},
		"team/a x":    {":team/a x", "team/a x"},
		"team/a me/b": {":team/a :me/b", "team/a :me/b"},
		"me/b team/a": {":me/b :team/a", ":me/b team/a"},
		"team ./x":    {"team ./x", "team ./x"},
		"TEAM/a me/b": {"TEAM/a :me/b", "TEAM/a :me/b"},
		// A colon makes the rest local, as before.
		"team/a :me/b":     {"team/a :me/b", "team/a :me/b"},
		":me/b team/a":     {":me/b team/a", ":me/b team/a"},
		"prod:me/b team/a": {"prod:me/b team/a", "prod:me/b team/a"},
	} {
		checkOperands(t, p, copyLines, operands, want[0], want[1])
	}
}

// checkOperands parses lines without and with a local folder.
func checkOperands(t *testing.T, p *parser, lines []string, text, want, wantIfFolder string) {
	t.Helper()
	for _, line := range lines {
		command, operands, _ := strings.Cut(line, "|")
		for folder, want := range map[string]string{"other": want, "team": wantIfFolder} {
			t.Chdir(testenv.MemoryDir(t))
			testenv.OK(t, os.Mkdir(folder, 0o700))
			got, form := "", operands
			if parsed, err := p.parse(strings.Fields(command + " " + fmt.Sprintf(operands, text))); err != nil {
				got, form = err.Error(), "%s"
			} else {
				for _, positional := range parsed.Selected().Positional {
					got += " " + strings.Trim(fmt.Sprint(positional.Target.Interface()), "{[]}")
				}
			}
			testenv.Equal(t, strings.TrimSpace(got), fmt.Sprintf(form, want), "the operands of %s %s with a folder %s", command, text, folder)
		}
	}
}
