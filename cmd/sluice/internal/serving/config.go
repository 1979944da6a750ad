package serving

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
)

// Config inspects the configuration of serve without running it.
type Config struct {
	Check configCheck `cmd:"" help:"Check the flags, the variables and the configuration file of serve."`
	Print configPrint `cmd:"" help:"Print the effective settings of serve, and where each was set. Passwords are masked."`
}

type configCheck struct {
	settings.ServeFlags
}

// Run prints that the configuration is valid: kong has called Validate before.
func (c *configCheck) Run(console *cli.Console) error {
	return cli.PrintLine(console.Out, "The configuration is valid.")
}

type configPrint struct {
	settings.ServeFlags
	cli.OutputFlags
}

// Run prints the settings as a configuration file, with their sources as comments.
func (c *configPrint) Run(console *cli.Console, parsed *kong.Context, read *settings.File) error {
	for _, setting := range c.Effective(parsed, read) {
		var err error
		if c.JSON {
			err = terminal.WriteJSON(console.Out, setting)
		} else {
			err = writeSetting(console.Out, setting)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settingWidth is the column before which the sources of settings begin, unless a setting is
// longer.
const settingWidth = 38

// writeSetting writes a setting as a line of YAML with a comment. A setting without a value is a
// comment.
func writeSetting(out io.Writer, s settings.Value) error {
	if s.Value == "" {
		_, err := fmt.Fprintf(out, "%-*s # %s\n", settingWidth, "# "+s.Name+":", terminal.Text(s.Source))
		return err
	}
	text, err := yaml.Marshal(map[string]any{s.Name: s.Value})
	if err != nil {
		return err
	}
	if list, isList := s.Value.([]string); isList {
		var items []string
		for _, item := range list {
			quoted, err := yaml.Marshal(item)
			if err != nil {
				return err
			}
			items = append(items, strings.TrimSpace(string(quoted)))
		}
		text = []byte(s.Name + ": [" + strings.Join(items, ", ") + "]")
	}
	_, err = fmt.Fprintf(out, "%-*s # %s\n", settingWidth, terminal.Text(strings.TrimSpace(string(text))), terminal.Text(s.Source))
	return err
}
