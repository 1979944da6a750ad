package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// helpWidth is the maximum width of help texts, in columns.
const helpWidth = 100

// examples returns the detailed help of a command: examples of calls, one a line.
func examples(calls ...string) string {
	return "Examples:\n\n    " + strings.Join(calls, "\n    ")
}

// describeFlag returns the help text of a flag or an argument, with its default and its variable.
func describeFlag(value *kong.Value) string {
	text := value.Help
	if value.HasDefault && value.Default != "" && !value.IsBool() && !strings.Contains(text, "Default:") {
		text = strings.TrimSpace(text + " Default: " + value.Default + ".")
	}
	if len(value.Tag.Envs) > 0 {
		text = strings.TrimSuffix(text, ".") + " (" + strings.Join(value.Tag.Envs, ", ") + ")."
	}
	return text
}
