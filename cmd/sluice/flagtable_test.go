package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sluice/internal/node"
	"sluice/internal/testenv"
)

// TestFlagTableIsCurrent compares docs/flags.md with the flags, and checks that it has each
// setting.
func TestFlagTableIsCurrent(t *testing.T) {
	want := must(t, "help", "--flags").stdout
	got, err := os.ReadFile("../../docs/flags.md")
	testenv.OK(t, err)
	if string(got) != want {
		t.Error("docs/flags.md is not current: renew it with go run ./cmd/sluice help --flags >docs/flags.md")
	}
	p, err := newParser(newCommands())
	testenv.OK(t, err)
	for name, flag := range settingsOf(p.kong.Model) {
		if name == "help" || flag.Hidden {
			continue
		}
		if cells := "| `" + strings.Join(flag.Tag.Envs, ", ") + "` | `" + name + "` |"; strings.Count(want, cells) != 1 {
			t.Errorf("the table has %d rows with %s", strings.Count(want, cells), cells)
		}
	}
	for _, row := range []string{
		"| `--log-format text\\|json` | `SLUICE_LOG_FORMAT` | `log-format` | `text` |",
		"| `--[no-]console` | `SLUICE_CONSOLE` | `console` | on if local, off if hosted |",
		"| `--session-ttl DURATION` | `SLUICE_SESSION_TTL` | `session-ttl` | `720h` | Lifetime of a session. | both |",
		"| `--key-requests-per-second N` | `SLUICE_KEY_REQUESTS_PER_SECOND` | `key-requests-per-second` | `1000` | Maximum requests per second for the keys of a group, or unlimited. | hosted |",
		"| `--address-requests-per-second N` | `SLUICE_ADDRESS_REQUESTS_PER_SECOND` | `address-requests-per-second` | `unlimited`; `100` if hosted |",
		"| `--seed DIR` | `SLUICE_SEED` | `seed` | none | Store the files of a folder at the start: DIR/ACCOUNT/NAME becomes the blob NAME of ACCOUNT. Blobs that exist are kept. | local |",
	} {
		if !strings.Contains(want, row) {
			t.Errorf("the table lacks %s", row)
		}
	}
}

// TestFlagsOfOneProfileAreRefusedByTheOther checks the table's last column.
func TestFlagsOfOneProfileAreRefusedByTheOther(t *testing.T) {
	for _, s := range settingTable(&configuration{}) {
		// A constant default, such as --fault-seed has, hides whether the flag was given.
		if s.profile() == "" || s.value.defaults().constant != "" {
			continue
		}
		var args []string
		if s.profile() == node.Local {
			args = slices.Clone(inProduction)
		}
		args = append(args, "--"+s.name)
		if _, isBool := s.value.(*bound[bool]); !isBool {
			args = append(args, "7")
		}
		if _, err := parse(t, args...); err == nil || !strings.HasPrefix(err.Error(), "--"+s.name+": ") {
			t.Errorf("%q is for the %s profile: %v", args, s.profile(), err)
		}
	}
}
