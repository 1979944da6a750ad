package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// helpWidth is the greatest width of help texts, in columns.
const helpWidth = 100

// examples returns a command's detailed help: examples of calls, one a line.
func examples(calls ...string) string {
	return "Examples:\n\n    " + strings.Join(calls, "\n    ")
}

// hasWords is the tag of flags and arguments that have their default in words in their help.
const hasWords = "words"

// describeFlag returns a flag's or argument's help text, with its default and its variable.
func describeFlag(value *kong.Value) string {
	text := value.Help
	if value.HasDefault && value.Default != "" && !value.IsBool() && !value.Tag.Has(hasWords) {
		text = strings.TrimSpace(text + " Default: " + value.Default + ".")
	}
	if names := strings.Join(value.Tag.Envs, ", "); names != "" && names != "-" { // "-": none
		text = strings.TrimSuffix(text, ".") + " (" + names + ")."
	}
	return text
}
