package main

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/settings"
	"sluice/node"
	"sluice/test/testenv"
)

// TestFlagTableIsCurrent compares docs/flags.md with the flags, and checks that it has each
// setting.
func TestFlagTableIsCurrent(t *testing.T) {
	want := must(t, "help", "--flags").stdout
	got := testenv.Must(os.ReadFile("../../docs/flags.md"))(t)
	if string(got) != want {
		t.Error("docs/flags.md is not current: renew it with go run ./cmd/sluice help --flags >docs/flags.md")
	}
	p := testenv.Must(newParser(newCommands()))(t)
	for name, flag := range settings.Of(p.kong.Model) {
		if name == "help" || flag.Hidden {
			continue
		}
		if cells := "| `" + strings.Join(flag.Tag.Envs, ", ") + "` | `" + name + "` |"; strings.Count(want, cells) != 1 {
			t.Errorf("the table has %d rows with %s", strings.Count(want, cells), cells)
		}
	}
}

// TestFlagsOfOneProfileAreRefusedByTheOther checks the table's last column.
func TestFlagsOfOneProfileAreRefusedByTheOther(t *testing.T) {
	for _, s := range settings.Table(&settings.Configuration{}) {
		if s.Profile() == "" {
			continue
		}
		var args []string
		if s.Profile() == node.Local {
			args = slices.Clone(inProduction)
		}
		args = append(args, "--"+s.Name)
		if _, isBool := s.Value.(*settings.Bound[bool]); !isBool {
			args = append(args, cmp.Or(map[string]string{"key-limits": "channels=7"}[s.Name], "7"))
		}
		if _, err := parse(t, args...); err == nil || !strings.HasPrefix(err.Error(), "--"+s.Name+": ") {
			t.Errorf("%q is for the %s profile: %v", args, s.Profile(), err)
		}
	}
}
