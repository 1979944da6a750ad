package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestSettingsRemain checks that no earlier version's setting was removed, renamed, or got
// another type, default or profile. testdata/settings.txt has them; a new setting need not be
// added.
func TestSettingsRemain(t *testing.T) {
	rows := map[string]bool{}
	for line := range strings.Lines(must(t, "help", "--flags").stdout) {
		line = strings.ReplaceAll(line, `\|`, "\x00")
		if cells := strings.Split(line, " | "); len(cells) == 6 {
			row := strings.Join([]string{strings.TrimPrefix(cells[0], "| "), cells[1], cells[2], cells[3], strings.TrimSuffix(cells[5], " |\n")}, " | ")
			rows[strings.ReplaceAll(row, "\x00", `\|`)] = true
		}
	}
	text := testenv.Must(os.ReadFile("testdata/settings.txt"))(t)
	for line := range strings.Lines(string(text)) {
		if !rows[strings.TrimSuffix(line, "\n")] {
			t.Errorf("there was a setting %s", line)
		}
	}
}

// TestConfigurationsRemain checks that files with every setting, and the variables, have the
// meaning that they had in earlier versions.
func TestConfigurationsRemain(t *testing.T) {
	for _, profile := range []string{"local", "hosted"} {
		t.Run(profile, func(t *testing.T) {
			ownContexts(t)
			file := "testdata/" + profile + ".yaml"
			want := testenv.Must(os.ReadFile("testdata/" + profile + ".print"))(t)
			if got := must(t, "config", "print", "--config", file).stdout; got != string(want) {
				t.Errorf("%s is\n%s, want\n%s", file, got, want)
			}
			settings := printedSettings(t, "--config", file)
			for name, s := range settings {
				if value := textOfAny(s.Value); strings.HasPrefix(s.Source, file) && s.Name != "meta" { // masked
					t.Setenv("SLUICE_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")), value)
				}
			}
			for name, s := range printedSettings(t, "--meta", "postgres://u:x@h/n") {
				if name != "meta" && !reflect.DeepEqual(s.Value, settings[name].Value) {
					t.Errorf("%s is %v as a variable, and %v in the file", name, s.Value, settings[name].Value)
				}
			}
		})
	}
}

// textOfAny returns an effectiveSetting's value that was decoded from JSON.
func textOfAny(value any) string {
	list, isList := value.([]any)
	if !isList {
		return value.(string)
	}
	var texts []string
	for _, item := range list {
		texts = append(texts, item.(string))
	}
	return strings.Join(texts, ",")
}
