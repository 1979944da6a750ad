package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// usageError returns the mistake in the command line, a variable or the configuration file, its
// place, and the remedy. The error err was returned by kong, or by a Validate method.
func usageError(err error, read *settingsFile) error {
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
		text = rewrite(ctx, command, text)
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
func sourceOfError(ctx *kong.Context, text string, read *settingsFile) string {
	found := leadingFlag.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	for _, flag := range ctx.Flags() {
		if flag.Name == found[1] {
			if s := sourceOf(ctx, flag, read); s != sourceFlag && s != sourceDefault {
				return s
			}
		}
	}
	return ""
}

// Where a value was set, if neither by a variable nor in a file.
const (
	sourceFlag    = "the command line"
	sourceDefault = "the default"
)

// sourceOf returns where a flag was set: sourceFlag, a variable's name, the file and
// line, or sourceDefault.
func sourceOf(ctx *kong.Context, flag *kong.Flag, read *settingsFile) string {
	onCommandLine := func(p *kong.Path) bool { return p.Flag == flag && !p.Resolved }
	if slices.ContainsFunc(ctx.Path, onCommandLine) {
		return sourceFlag
	}
	if name := variable(flag); name != "" {
		return name
	}
	if read.file != nil && flag.Name != "config" {
		if key := read.file.key(flag.Name); key != nil {
			return read.file.where(key)
		}
	}
	return sourceDefault
}

// rewrites are the errors of kong that explain too little, with the texts that replace them.
var rewrites = []struct {
	pattern *regexp.Regexp
	text    func(ctx *kong.Context, command *kong.Node, found []string) string
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
	{regexp.MustCompile(`^--([a-z0-9-]+): bool value must be .* but got "?(.*?)"?$`), wrongBool},
	{regexp.MustCompile(`^--([a-z0-9-]+): expected a valid (\d+) bit (u?)int but got "((?s).*)"$`), wrongNumber},
	{regexp.MustCompile(`^--([a-z0-9-]+): expected a float but got "((?s).*)"`), wrongFraction},
	{regexp.MustCompile(`^\[?<[a-z.]+>(?: \.\.\.)?\]?: ((?s).*)$`), wrongArgument},
	{regexp.MustCompile(`^--([a-z0-9-]+): expected "<key>=<value>" but got "((?s).*)"$`), wrongPair},
	{regexp.MustCompile(`^--([a-z0-9-]+): slog: level string "((?s).*)": `), wrongLevel},
}

func rewrite(ctx *kong.Context, command *kong.Node, text string) string {
	for _, r := range rewrites {
		if found := r.pattern.FindStringSubmatch(text); found != nil {
			return r.text(ctx, command, found)
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

func unknownFlag(_ *kong.Context, command *kong.Node, found []string) string {
	var names []string
	for _, flags := range command.AllFlags(true) {
		for _, flag := range flags {
			names = append(names, "--"+flag.Name)
		}
	}
	if held := removedSettings[strings.TrimPrefix(found[1], "--")]; held != "" && slices.Contains(names, "--config") {
		return found[1] + " was removed: " + held
	}
	of := "sluice"
	if command.Parent != nil {
		of = pathOf(command)
	}
	meant := flagSynonyms[found[1]]
	if !slices.Contains(names, meant) {
		meant = closest(found[1], names)
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
	"copy": "cp", "copyto": "cp", "move": "mv", "moveto": "mv", "rename": "mv", "mirror": "sync", "rsync": "sync",
	"head": "stat", "show": "stat", "dir": "ls", "lsf": "ls -r", "lsl": "ls -l", "size": "du", "type": "cat", "print": "cat",
	"store": "put", "fetch": "get", "read": "get", "rcat": "put", "presign": "share", "link": "share", "publiclink": "share", "url": "share",
	"start": "serve", "server": "serve", "run": "serve", "alias": "context", "ping": "health", "ready": "health",
	"login": "context add", "logout": "context rm", "configure": "context add", "rb": "rm -r", "search": "find", "keys": "key", "benchmark": "bench", "fsck": "check", "verify": "check", "audit": "check --books", "damaged": "check --recorded", "tree": "ls -r",
}

func unexpectedArgument(_ *kong.Context, command *kong.Node, found []string) string {
	switch names := commandNames(command); {
	case len(names) > 0:
		meant := closest(found[1], names)
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

func missingCommand(_ *kong.Context, command *kong.Node, _ []string) string {
	if command.Parent == nil {
		return "a command is missing: sluice help lists the commands"
	}
	return fmt.Sprintf("%s requires a command: %s", pathOf(command), strings.Join(commandNames(command), ", "))
}

func missingArgument(_ *kong.Context, command *kong.Node, found []string) string {
	name, _, _ := strings.Cut(found[1], ">")
	return fmt.Sprintf("%s requires the argument %s: %s shows the usage", pathOf(command), strings.ToUpper(strings.TrimSuffix(name, "...")), helpOf(command))
}

func missingFlags(_ *kong.Context, command *kong.Node, found []string) string {
	return fmt.Sprintf("%s requires %s", pathOf(command), strings.ReplaceAll(found[1], "=", " "))
}

func flagOf(command *kong.Node, name string) *kong.Flag {
	return findFlag(command, func(f *kong.Flag) bool { return f.Name == name })
}

func missingValue(_ *kong.Context, command *kong.Node, found []string) string {
	placeholder := "VALUE"
	if flag := flagOf(command, found[1]); flag != nil && flag.PlaceHolder != "" {
		placeholder = flag.PlaceHolder
	}
	return fmt.Sprintf("--%s requires a value: want --%s %s, or --%s=%s if the value begins with a dash", found[1], found[1], placeholder, found[1], placeholder)
}

func wrongChoice(_ *kong.Context, _ *kong.Node, found []string) string {
	choices := strings.ReplaceAll(strings.ReplaceAll(found[2], `"`, ""), ",", ", ")
	return fmt.Sprintf("--%s %s: want one of %s", found[1], found[3], choices)
}

func wrongBool(_ *kong.Context, _ *kong.Node, found []string) string {
	return fmt.Sprintf("--%s: want true or false, not %q", found[1], found[2])
}

func wrongNumber(_ *kong.Context, command *kong.Node, found []string) string {
	want := "a whole number"
	if flag := flagOf(command, found[1]); flag != nil {
		switch t := flag.Target.Type(); {
		case t.Kind() == reflect.Uint8:
			want = "a whole number from 0 to 255"
		case found[3] == "u":
			want = "a whole number of at least 0"
		}
	}
	return fmt.Sprintf("--%s: want %s, not %q", found[1], want, found[4])
}

func wrongFraction(_ *kong.Context, _ *kong.Node, found []string) string {
	return fmt.Sprintf("--%s: want a number, not %q", found[1], found[2])
}

// wrongArgument returns an argument's error, which names the mistake.
func wrongArgument(_ *kong.Context, _ *kong.Node, found []string) string { return found[1] }

func wrongPair(_ *kong.Context, _ *kong.Node, found []string) string {
	return fmt.Sprintf("--%s: want NAME=VALUE, not %q", found[1], found[2])
}

func wrongLevel(_ *kong.Context, _ *kong.Node, found []string) string {
	return fmt.Sprintf("--%s: want debug, info, warn or error, not %q", found[1], found[2])
}

// foreignVariables are the variables that begin with SLUICE_ and are not settings: those that
// Kubernetes sets for services with names that begin with sluice, and the tests' own.
var foreignVariables = regexp.MustCompile(`^SLUICE_(?:SERVICE_.*|.*_SERVICE_.*|PORT.*|.*_PORT|.*_PORT_.*|TEST.*|BENCH_.*|MUTATION.*)$`)

// unknownVariables returns a warning for each environment variable that looks like a setting and is
// none.
func unknownVariables(app *kong.Application, environment []string) (warnings []string) {
	const prefix = "SLUICE_"
	var known []string // without the prefix
	for _, name := range clientVariables {
		known = append(known, strings.TrimPrefix(name, prefix))
	}
	for _, flag := range settingsOf(app) {
		for _, name := range flag.Envs {
			known = append(known, strings.TrimPrefix(name, prefix))
		}
	}
	slices.Sort(known)
	for _, pair := range environment {
		name, _, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || slices.Contains(known, rest) || len(removedVariables([]string{pair})) > 0 || foreignVariables.MatchString(name) {
			continue
		}
		warning := fmt.Sprintf("the environment variable %s is unknown and has no effect", name)
		if meant := closest(rest, known); meant != "" {
			warning += fmt.Sprintf(": did you mean %s?", prefix+meant)
		}
		warnings = append(warnings, warning)
	}
	slices.Sort(warnings)
	return warnings
}

// environment returns the process's environment. It is a variable for tests.
var environment = os.Environ
