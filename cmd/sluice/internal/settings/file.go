package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"sluice/cmd/sluice/internal/cli"
	"sluice/paychan"
)

// configFlag is --config, a flag of commands that read settings.
type configFlag string

// File is the configuration file that the command line or SLUICE_CONFIG names, if any.
type File struct{ file *configFile }

// BeforeResolve reads the file. kong calls it after the command line is parsed.
func (c configFlag) BeforeResolve(ctx *kong.Context, trace *kong.Path, read *File) error {
	name, _ := ctx.FlagValue(trace.Flag).(configFlag)
	if name == "" {
		return nil
	}
	file, err := readConfig(string(name))
	if err != nil {
		return err
	}
	read.file = file
	ctx.AddResolver(file)
	return nil
}

// readConfig reads a configuration file, a YAML mapping of flag names to values. A name
// that begins with ~/ is in the home folder: shells do not expand it in --config=~/FILE.
func readConfig(name string) (*configFile, error) {
	if strings.HasPrefix(name, "~/") {
		name = kong.ExpandPath(name)
	}
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("--config: there is no file %s: name an existing one, or omit --config to use the defaults", name)
	case err != nil:
		return nil, fmt.Errorf("--config: cannot read the file: %w", err)
	}
	f, err := parseConfig(name, text)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// configFile is a configuration file. It keeps the nodes because a scalar is used as it is written:
// 0x10 is an address, not a number.
type configFile struct {
	name string
	keys []configKey
}

// configKey is a key and its value.
type configKey struct {
	name  string
	line  int
	value *yaml.Node
}

func parseConfig(name string, text []byte) (*configFile, error) {
	var document yaml.Node
	err := yaml.Unmarshal(text, &document)
	switch {
	case errors.Is(err, io.EOF), err == nil && len(document.Content) == 0:
		return &configFile{name: name}, nil
	case err != nil:
		return nil, syntaxError(name, err)
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return &configFile{name: name}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want flags and their values, a pair a line, such as addr: localhost:9090", name, root.Line)
	}
	f := &configFile{name: name}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if first := f.key(key.Value); first != nil {
			return nil, fmt.Errorf("%s:%d: %s is set twice, first in line %d: remove one of them", name, key.Line, key.Value, first.line)
		}
		f.keys = append(f.keys, configKey{key.Value, key.Line, value})
	}
	return f, nil
}

var yamlLine = regexp.MustCompile(`\bline (\d+)(?:, column \d+)?:? ?`)

// syntaxError returns the YAML parser's error with the file and the line before it.
func syntaxError(name string, err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(text, "yaml: ")
	where := name
	if found := yamlLine.FindStringSubmatch(text); found != nil {
		where += ":" + found[1]
		text = strings.Replace(text, found[0], "", 1)
	}
	return fmt.Errorf("%s: not valid YAML: %s", where, text)
}

// key returns the key with a name, or nil.
func (c *configFile) key(name string) *configKey {
	i := slices.IndexFunc(c.keys, func(k configKey) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return &c.keys[i]
}

// where returns a key's file and line.
func (c *configFile) where(k *configKey) string { return fmt.Sprintf("%s:%d", c.name, k.line) }

// Validate returns an error if a key is not a setting: ignoring it would hide a mistyped setting.
// All commands share one file.
func (c *configFile) Validate(app *kong.Application) error {
	settings := Of(app)
	var names []string
	for name := range settings {
		if name != "config" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var errs []error
	for i, key := range c.keys {
		if slices.Contains(names, key.name) {
			continue
		}
		if held := Removed[key.name]; held != "" {
			errs = append(errs, fmt.Errorf("%s: %s was removed: %s", c.where(&c.keys[i]), key.name, held))
			continue
		}
		hint := "sluice help serve lists the settings"
		if meant := cli.Closest(strings.ReplaceAll(strings.ToLower(strings.TrimLeft(key.name, "-")), "_", "-"), names); meant != "" {
			hint = fmt.Sprintf("did you mean %s?", meant)
		}
		errs = append(errs, fmt.Errorf("%s: unknown key %q: %s", c.where(&c.keys[i]), key.name, hint))
	}
	return errors.Join(errs...)
}

// Resolve returns a flag's value if neither the command line nor the environment has set it. It
// implements kong.Resolver.
func (c *configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if variable(flag) != "" {
		return nil, nil
	}
	key := c.key(flag.Name)
	if key == nil || flag.Name == "config" {
		return nil, nil
	}
	switch {
	case key.value.Kind == yaml.ScalarNode:
		return key.value.Value, nil
	case key.value.Kind == yaml.SequenceNode && flag.IsSlice():
		var list []any
		for _, item := range key.value.Content {
			list = append(list, item.Value)
		}
		return list, nil
	case key.value.Kind == yaml.MappingNode && hasMembers(flag):
		var members []string
		for i := 0; i+1 < len(key.value.Content); i += 2 {
			members = append(members, key.value.Content[i].Value+"="+key.value.Content[i+1].Value)
		}
		return strings.Join(members, ","), nil
	case flag.IsSlice():
		return nil, errors.New("want a value or a list of values")
	default:
		return nil, errors.New("want a single value")
	}
}

// hasMembers reports whether a flag's value has named members, which a file may have as a mapping.
func hasMembers(flag *kong.Flag) bool {
	switch flag.Target.Interface().(type) {
	case limitList, paychan.Chain:
		return true
	}
	return false
}

// variable returns the environment variable that is set for a flag, or "".
func variable(flag *kong.Flag) string {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return name
		}
	}
	return ""
}

// Of returns the flags of serve by their names.
func Of(app *kong.Application) map[string]*kong.Flag {
	settings := map[string]*kong.Flag{}
	for _, flag := range flagsOfServe(app) {
		settings[flag.Name] = flag
	}
	return settings
}

func flagsOfServe(app *kong.Application) []*kong.Flag {
	i := slices.IndexFunc(app.Children, func(n *kong.Node) bool { return n.Name == "serve" })
	return app.Children[i].Flags
}

// Where a value was set, if neither by a variable nor in a file.
const (
	SourceFlag    = "the command line"
	SourceDefault = "the default"
)

// SourceOf returns where a flag was set: sourceFlag, a variable's name, the file and
// line, or sourceDefault.
func SourceOf(ctx *kong.Context, flag *kong.Flag, read *File) string {
	onCommandLine := func(p *kong.Path) bool { return p.Flag == flag && !p.Resolved }
	if slices.ContainsFunc(ctx.Path, onCommandLine) {
		return SourceFlag
	}
	if name := variable(flag); name != "" {
		return name
	}
	if read.file != nil && flag.Name != "config" {
		if key := read.file.key(flag.Name); key != nil {
			return read.file.where(key)
		}
	}
	return SourceDefault
}

// FlagOf returns the flag of a command that has a name, or nil.
func FlagOf(command *kong.Node, name string) *kong.Flag {
	return FindFlag(command, func(f *kong.Flag) bool { return f.Name == name })
}

// FindFlag returns the first flag of a command that a function accepts, or nil.
func FindFlag(node *kong.Node, is func(*kong.Flag) bool) *kong.Flag {
	for _, flags := range node.AllFlags(false) {
		for _, flag := range flags {
			if is(flag) {
				return flag
			}
		}
	}
	return nil
}
