package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/internal/node"
)

// flagTableHead is the text of docs/flags.md before the tables.
const flagTableHead = `# Flags of serve

Each flag of ` + "`sluice serve`" + ` is also an environment variable, and a key of the configuration file
that ` + "`--config`" + ` names. A flag overrides its variable, and a variable overrides the file. A flag for
one profile is refused with the other. [Operations](operations.md) describes them in context.

This file is the output of ` + "`sluice help --flags`" + `.
`

// writeFlagTable writes the flags of serve as tables in Markdown, one for each group.
func writeFlagTable(out io.Writer, app *kong.Application) error {
	local, hosted := serveFlags{Profile: node.Local, Key: newLimitFlags(true), Address: newLimitFlags(false)}, serveFlags{Profile: node.Hosted, Key: newLimitFlags(true), Address: newLimitFlags(false)}
	limits := limitDefaults(local.dependentDefaults(), hosted.dependentDefaults())
	var b strings.Builder
	b.WriteString(flagTableHead)
	group := ""
	for _, flag := range serveFlagsOf(app) {
		if title := groupTitle(flag); title != group {
			group = title
			_, _ = fmt.Fprintf(&b, "\n## %s\n\n| Flag | Variable | Key | Default | Meaning | Profile |\n|---|---|---|---|---|---|\n", group)
		}
		meaning, byDefault := meaningAndDefault(flag)
		meaning, profile := withoutProfile(flag, meaning)
		if limit := limits[flag.Name]; limit != "" {
			byDefault = limit
		}
		_, _ = fmt.Fprintf(&b, "| `%s` | `%s` | `%s` | %s | %s | %s |\n", cell(flagUsage(flag)), strings.Join(flag.Tag.Envs, ", "), flag.Name, cell(byDefault), cell(meaning), profile)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// limitDefaults returns the defaults of the limits of callers, which depend on the profile.
func limitDefaults(local, hosted map[string]string) map[string]string {
	limits := map[string]string{}
	for name, value := range hosted {
		switch {
		case strings.HasPrefix(name, "key-"), strings.HasPrefix(name, "address-") && value == local[name]:
			limits[name] = "`" + value + "`"
		case strings.HasPrefix(name, "address-"):
			limits[name] = "`" + local[name] + "`; `" + value + "` if hosted"
		}
	}
	return limits
}

// serveFlagsOf returns the flags of serve in the order of its help, the groups together.
func serveFlagsOf(app *kong.Application) []*kong.Flag {
	var titles []string
	groups := map[string][]*kong.Flag{}
	for _, command := range app.Children {
		if command.Name != "serve" {
			continue
		}
		for _, flag := range command.Flags {
			if flag.Hidden || len(flag.Tag.Envs) == 0 {
				continue
			}
			title := groupTitle(flag)
			if groups[title] == nil {
				titles = append(titles, title)
			}
			groups[title] = append(groups[title], flag)
		}
	}
	var all []*kong.Flag
	for _, title := range titles {
		all = append(all, groups[title]...)
	}
	return all
}

func groupTitle(flag *kong.Flag) string {
	if flag.Group == nil {
		return "General"
	}
	return strings.TrimSuffix(flag.Group.Title, ":")
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

// kindOf returns what a flag without a placeholder takes.
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

var defaultSentence = regexp.MustCompile(` ?Default: ([^.]+(?:\.[^ .][^.]*)*)\.`)

// meaningAndDefault returns the help of a flag without its default, and the default.
func meaningAndDefault(flag *kong.Flag) (meaning, byDefault string) {
	if found := defaultSentence.FindStringSubmatch(flag.Help); found != nil {
		return strings.TrimSpace(strings.Replace(flag.Help, found[0], "", 1)), found[1]
	}
	switch {
	case flag.IsBool():
		return flag.Help, "off"
	case flag.HasDefault && flag.Default != "":
		return flag.Help, "`" + flag.Default + "`"
	default:
		return flag.Help, "none"
	}
}

// withoutProfile returns the help of a flag without the sentence that says for which profile it is, and
// the profile.
func withoutProfile(flag *kong.Flag, help string) (meaning, profile string) {
	for _, p := range []string{"local", "hosted"} {
		sentence := strings.ToUpper(p[:1]) + p[1:] + " profile only."
		if before, after, found := strings.Cut(help, sentence); found {
			return strings.TrimSpace(strings.TrimSpace(before) + " " + strings.TrimSpace(after)), p
		}
	}
	switch {
	case strings.HasSuffix(groupTitle(flag), "local instance"):
		return help, "local"
	case strings.HasPrefix(flag.Name, "key-"):
		return help, "hosted"
	default:
		return help, "both"
	}
}

// cell escapes a text of a cell.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
