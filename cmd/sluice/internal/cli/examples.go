package cli

import (
	"strings"
)

// Examples returns a command's detailed help: examples of calls, one a line.
func Examples(calls ...string) string {
	return "Examples:\n\n    " + strings.Join(calls, "\n    ")
}
