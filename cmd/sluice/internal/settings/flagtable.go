package settings

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/node"
)

// flagTableHead is the text of docs/flags.md before the tables.
const flagTableHead = `# Flags of serve

Each flag of ` + "`sluice serve`" + ` is also an environment variable, and a key of the configuration file
that ` + "`--config`" + ` names. A flag overrides its variable, and a variable overrides the file. A flag for
one profile is refused with the other. [Operations](operations.md) describes them in context.

This file is the output of ` + "`sluice help --flags`" + `.
`

// WriteTable writes the flags of serve as tables in Markdown, one for each section.
func WriteTable(out io.Writer, app *kong.Application, table []Setting) error {
	flags := Of(app)
	config := Setting{Name: "config", Help: flags["config"].Help, Value: optional(new(configFlag))}
	sections := map[string]string{}
	var titles []string
	for _, s := range append([]Setting{config}, table...) {
		title := cmp.Or(strings.TrimSuffix(s.Section.title, ":"), "General")
		if sections[title] == "" {
			titles = append(titles, title)
		}
		sections[title] += flagRow(&s, flags[s.Name])
	}
	var b strings.Builder
	b.WriteString(flagTableHead)
	for _, title := range titles {
		_, _ = fmt.Fprintf(&b, "\n## %s\n\n| Flag | Variable | Key | Default | Meaning | Profile |\n|---|---|---|---|---|---|\n%s", title, sections[title])
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// flagRow returns a line.
func flagRow(s *Setting, flag *kong.Flag) string {
	escape := func(cell string) string { return strings.ReplaceAll(cell, "|", `\|`) }
	return fmt.Sprintf("| `%s` | `%s` | `%s` | %s | %s | %s |\n", escape(flagUsage(flag)), strings.Join(flag.Tag.Envs, ", "), s.Name,
		escape(s.defaultWords()), escape(s.Help), cmp.Or(string(s.Profile()), "both"))
}

// defaultWords returns the default in words, or as a value in backticks.
func (s *Setting) defaultWords() string {
	_, isBool := s.Value.(*Bound[bool])
	switch d := s.Value.defaults(); {
	case s.words != "":
		return s.words
	case isBool:
		return "off"
	case d.constant != "":
		return "`" + d.constant + "`"
	case d.local == "" && d.hosted == "":
		return "none"
	case s.Profile() == node.Hosted || d.local == d.hosted:
		return "`" + d.hosted + "`"
	default:
		return "`" + d.local + "`; `" + d.hosted + "` if hosted"
	}
}

// flagUsage returns a flag with a placeholder of its value.
func flagUsage(flag *kong.Flag) string {
	switch {
	case flag.IsBool() && flag.Tag.Negatable != "":
		return "--[no-]" + flag.Name
	case flag.IsBool():
		return "--" + flag.Name
	case flag.Enum != "":
		return "--" + flag.Name + " " + strings.ReplaceAll(flag.Enum, ",", "|")
	case flag.PlaceHolder == "" && flag.HasDefault:
		return "--" + flag.Name + " " + kindOf(flag)
	default:
		return "--" + flag.Name + " " + strings.Trim(flag.FormatPlaceHolder(), `"`)
	}
}

// kindOf returns the kind of value that a flag without a placeholder takes.
func kindOf(flag *kong.Flag) string {
	switch flag.Target.Interface().(type) {
	case time.Duration:
		return "DURATION"
	case size:
		return "SIZE"
	case string:
		return "VALUE"
	default:
		return "N"
	}
}
