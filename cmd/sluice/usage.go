package main

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
)

// usageError returns the mistake in the command line, a variable or the configuration file, its
// place, and the remedy. The error err was returned by kong, or by a Validate method.
func usageError(err error, read *settings.File) error {
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context == nil {
		return err
	}
	ctx := parse.Context
	command := ctx.Selected()
	if command == nil {
		command = ctx.Model.Node
	}
	var errs []error
	for _, text := range strings.Split(err.Error(), "\n") {
		text = strings.TrimPrefix(text, command.Path()+": ")
		text, where := cutVariable(text)
		if where == "" {
			where = sourceOfError(ctx, text, read)
		}
		text = rewrite(command, text)
		if where != "" {
			text = where + ": " + text
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

var fromVariable = regexp.MustCompile(`^((?s).*) \(from envar (\w+)=.*\)$`)

// cutVariable returns an error of kong without the variable that it names, and without the value of
// it, which may be a secret.
func cutVariable(text string) (rest, name string) {
	if found := fromVariable.FindStringSubmatch(text); found != nil {
		return found[1], found[2]
	}
	return text, ""
}

var leadingFlag = regexp.MustCompile(`^--([a-z][a-z0-9-]*)`)

// sourceOfError returns where the flag that an error begins with was set, or "" if it was set on
// the command line or not at all.
func sourceOfError(ctx *kong.Context, text string, read *settings.File) string {
	found := leadingFlag.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	for _, flag := range ctx.Flags() {
		if flag.Name == found[1] {
			if s := settings.SourceOf(ctx, flag, read); s != settings.SourceFlag && s != settings.SourceDefault {
				return s
			}
		}
	}
	return ""
}

// rewrites are the errors of kong that explain too little, with the texts that replace them.
var rewrites = []struct {
	pattern *regexp.Regexp
	text    func(command *kong.Node, found []string) string
}{
	{regexp.MustCompile(`^unknown flag (-[^ ,]*)`), unknownFlag},
	{regexp.MustCompile(`^unexpected argument ((?s).+?)(?:, did you mean .*)?$`), unexpectedArgument},
	{regexp.MustCompile(`^expected "<(.*)$`), missingArgument},
	{regexp.MustCompile(`^expected (?:one of )?"`), missingCommand},
	{regexp.MustCompile(`^missing flags?: (.*)$`), missingFlags},
	{regexp.MustCompile(`^--([a-z0-9-]+): .*but got "EOL" \(<EOL>\)`), missingValue},
	{regexp.MustCompile(`^--([a-z0-9-]+): missing value, expecting`), missingValue},
	{regexp.MustCompile(`^--([a-z0-9-]+): .*perhaps try`), missingValue},
	{regexp.MustCompile(`^--([a-z0-9-]+) must be one of (.*) but got "(.*)"$`), wrongChoice},
	{regexp.MustCompile(`^--([a-z0-9-]+): bool value must be .* but got "?(.*?)"?$`), sentence("--%s: want true or false, not %q")},
	{regexp.MustCompile(`^--([a-z0-9-]+): expected a valid (\d+) bit (u?)int but got "((?s).*)"$`), wrongNumber},
	{regexp.MustCompile(`^--([a-z0-9-]+): expected a float but got "((?s).*)"`), sentence("--%s: want a number, not %q")},
	{regexp.MustCompile(`^\[?<[a-z.]+>(?: \.\.\.)?\]?: ((?s).*)$`), sentence("%s")},
	{regexp.MustCompile(`^--([a-z0-9-]+): expected "<key>=<value>" but got "((?s).*)"$`), sentence("--%s: want NAME=VALUE, not %q")},
	{regexp.MustCompile(`^--([a-z0-9-]+): slog: level string "((?s).*)": `), sentence("--%s: want debug, info, warn or error, not %q")},
}

// sentence returns a function that formats the found parts.
func sentence(format string) func(*kong.Node, []string) string {
	return func(_ *kong.Node, found []string) string {
		var parts []any
		for _, part := range found[1:] {
			parts = append(parts, part)
		}
		return fmt.Sprintf(format, parts...)
	}
}

func rewrite(command *kong.Node, text string) string {
	for _, r := range rewrites {
		if found := r.pattern.FindStringSubmatch(text); found != nil {
			return r.text(command, found)
		}
	}
	return text
}

// helpOf returns the words that show a command's help.
func helpOf(command *kong.Node) string {
	return strings.TrimSpace("sluice help " + pathOf(command))
}

// pathOf returns a command's words, without its aliases.
func pathOf(command *kong.Node) string {
	if command == nil || command.Parent == nil {
		return ""
	}
	return strings.TrimSpace(pathOf(command.Parent) + " " + command.Name)
}

func unknownFlag(command *kong.Node, found []string) string {
	var names []string
	for _, flags := range command.AllFlags(true) {
		for _, flag := range flags {
			names = append(names, "--"+flag.Name)
		}
	}
	if held := settings.Removed[strings.TrimPrefix(found[1], "--")]; held != "" && slices.Contains(names, "--config") {
		return found[1] + " was removed: " + held
	}
	of := "sluice"
	if command.Parent != nil {
		of = pathOf(command)
	}
	meant := flagSynonyms[found[1]]
	if !slices.Contains(names, meant) {
		meant = cli.Closest(found[1], names)
	}
	if meant != "" {
		return fmt.Sprintf("%s has no flag %s: did you mean %s?", of, found[1], meant)
	}
	if command.Parent == nil {
		return fmt.Sprintf("%s has no flag %s: the flags of a command follow its name, and %s lists the commands", of, found[1], helpOf(command))
	}
	return fmt.Sprintf("%s has no flag %s: %s lists the flags", of, found[1], helpOf(command))
}

// commandNames returns the names of commands below node.
func commandNames(node *kong.Node) (names []string) {
	for _, child := range node.Children {
		if !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

// flagSynonyms are names of flags in other programs.
var flagSynonyms = map[string]string{"-R": "--recursive", "-a": "--recursive", "-f": "--yes", "--force": "--yes", "--dryrun": "--dry-run"}

// unneeded are commands of other programs that need no equivalent, each with advice.
var unneeded = map[string]string{
	"mkdir": "folders come and go with the names of blobs", "rmdir": "folders come and go with the names of blobs",
	"mb": "an account exists while it has blobs", "touch": "sluice put /dev/null ACCOUNT/NAME stores an empty blob",
	"reset": "stop the server and remove its data folder", "clone": cloning, "migrate": cloning,
}

// cloning names the commands that copy an instance.
const cloning = "sluice backup PLACE and then sluice restore PLACE --to DIR copy an instance"

// synonyms are other programs' names of commands.
var synonyms = map[string]string{
	"delete": "rm", "del": "rm", "remove": "rm", "erase": "rm", "deletefile": "rm", "purge": "rm -r",
	"copy": "cp", "copyto": "cp", "move": "mv", "moveto": "mv", "rename": "mv", "replicate": "mirror", "rsync": "sync",
	"head": "stat", "show": "stat", "dir": "ls", "lsf": "ls -r", "lsl": "ls -l", "size": "du", "type": "cat", "print": "cat",
	"store": "put", "fetch": "get", "read": "get", "rcat": "put", "presign": "share", "link": "share", "publiclink": "share", "url": "share",
	"start": "serve", "server": "serve", "run": "serve", "alias": "context", "ping": "health", "ready": "health",
	"login": "context add", "logout": "context rm", "configure": "context add", "rb": "rm -r", "search": "find", "keys": "key", "benchmark": "bench", "fsck": "check", "verify": "check", "audit": "check --books", "damaged": "check --recorded", "tree": "ls -r",
}

func unexpectedArgument(command *kong.Node, found []string) string {
	switch names := commandNames(command); {
	case len(names) > 0:
		meant := cli.Closest(found[1], names)
		if command.Parent == nil && synonyms[found[1]] != "" {
			meant = synonyms[found[1]]
		}
		if note := unneeded[found[1]]; command.Parent == nil && note != "" {
			return fmt.Sprintf("there is no command %q, and no need for one: %s", found[1], note)
		}
		if meant != "" {
			return fmt.Sprintf("there is no command %q: did you mean %s?", strings.TrimSpace(pathOf(command)+" "+found[1]), strings.TrimSpace(pathOf(command)+" "+meant))
		}
		return fmt.Sprintf("there is no command %q: %s lists the commands", strings.TrimSpace(pathOf(command)+" "+found[1]), helpOf(command))
	case len(command.Positional) == 0:
		return fmt.Sprintf("%s takes no arguments, but got %q", pathOf(command), found[1])
	default:
		return fmt.Sprintf("%s has too many arguments: the first superfluous one is %q; %s shows the usage", pathOf(command), found[1], helpOf(command))
	}
}

func missingCommand(command *kong.Node, _ []string) string {
	if command.Parent == nil {
		return "a command is missing: sluice help lists the commands"
	}
	return fmt.Sprintf("%s requires a command: %s", pathOf(command), strings.Join(commandNames(command), ", "))
}

func missingArgument(command *kong.Node, found []string) string {
	name, _, _ := strings.Cut(found[1], ">")
	return fmt.Sprintf("%s requires the argument %s: %s shows the usage", pathOf(command), strings.ToUpper(strings.TrimSuffix(name, "...")), helpOf(command))
}

func missingFlags(command *kong.Node, found []string) string {
	return fmt.Sprintf("%s requires %s", pathOf(command), strings.ReplaceAll(found[1], "=", " "))
}

func missingValue(command *kong.Node, found []string) string {
	placeholder := "VALUE"
	if flag := settings.FlagOf(command, found[1]); flag != nil && flag.PlaceHolder != "" {
		placeholder = flag.PlaceHolder
	}
	return fmt.Sprintf("--%s requires a value: want --%s %s, or --%s=%s if the value begins with a dash", found[1], found[1], placeholder, found[1], placeholder)
}

func wrongChoice(_ *kong.Node, found []string) string {
	choices := strings.ReplaceAll(strings.ReplaceAll(found[2], `"`, ""), ",", ", ")
	return fmt.Sprintf("--%s %s: want one of %s", found[1], found[3], choices)
}

func wrongNumber(command *kong.Node, found []string) string {
	want := "a whole number"
	if flag := settings.FlagOf(command, found[1]); flag != nil {
		switch t := flag.Target.Type(); {
		case t.Kind() == reflect.Uint8:
			want = "a whole number from 0 to 255"
		case found[3] == "u":
			want = "a whole number of at least 0"
		}
	}
	return fmt.Sprintf("--%s: want %s, not %q", found[1], want, found[4])
}

// foreignVariables are the variables that begin with SLUICE_ and are not settings: those that
// Kubernetes sets for services with names that begin with sluice, and the tests' own.
var foreignVariables = regexp.MustCompile(`^SLUICE_(?:SERVICE_.*|.*_SERVICE_.*|PORT.*|.*_PORT|.*_PORT_.*|TEST.*|BENCH_.*|MUTATION.*)$`)

// unknownVariables returns a warning for each environment variable that looks like a setting and is
// none.
func unknownVariables(app *kong.Application, environment []string) (warnings []string) {
	const prefix = "SLUICE_"
	var known []string // without the prefix
	for _, name := range cli.ClientVariables {
		known = append(known, strings.TrimPrefix(name, prefix))
	}
	for _, flag := range settings.Of(app) {
		for _, name := range flag.Envs {
			known = append(known, strings.TrimPrefix(name, prefix))
		}
	}
	slices.Sort(known)
	for _, pair := range environment {
		name, _, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || slices.Contains(known, rest) || len(settings.RemovedVariables([]string{pair})) > 0 || foreignVariables.MatchString(name) {
			continue
		}
		warning := fmt.Sprintf("the environment variable %s is unknown and has no effect", name)
		if meant := cli.Closest(rest, known); meant != "" {
			warning += fmt.Sprintf(": did you mean %s?", prefix+meant)
		}
		warnings = append(warnings, warning)
	}
	slices.Sort(warnings)
	return warnings
}
