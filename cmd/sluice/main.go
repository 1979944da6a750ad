// Command sluice is a blob-storage RPC service. It stores blobs, serves any byte
// range of them, and meters the reads.
package main

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"time"

	"github.com/alecthomas/kong"

	"sluice/internal/terminal"
	"sluice/internal/units"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// commands are the subcommands, one in each file.
type commands struct {
	ShowVersion versionFlag `name:"version" short:"v" env:"-" help:"Print the version."`

	Put    putCommand    `cmd:"" group:"Blobs:" help:"Store a file, a folder or standard input."`
	Get    getCommand    `cmd:"" group:"Blobs:" aliases:"download" help:"Read a blob, or all blobs below a prefix, into files."`
	Cp     cpCommand     `cmd:"" group:"Blobs:" help:"Copy files and blobs, also from one server to another."`
	Sync   syncCommand   `cmd:"" group:"Blobs:" help:"Make a folder or a prefix like another."`
	Ls     lsCommand     `cmd:"" group:"Blobs:" aliases:"list" help:"List the names of blobs."`
	Cat    catCommand    `cmd:"" group:"Blobs:" help:"Write blobs to standard output."`
	Stat   statCommand   `cmd:"" group:"Blobs:" help:"Print the properties of blobs."`
	Rm     rmCommand     `cmd:"" group:"Blobs:" help:"Delete blobs."`
	Du     duCommand     `cmd:"" group:"Blobs:" help:"Print how many blobs there are and how much they store."`
	Upload uploadCommand `cmd:"" group:"Blobs:" help:"List and abort uploads. With a file and a blob it is put."`

	Context contextCommand `cmd:"" group:"Servers:" help:"Name servers, and choose the one to use."`
	Account accountCommand `cmd:"" group:"Servers:" help:"Make the key pair that signs micropayments, and show its address."`
	Info    infoCommand    `cmd:"" group:"Servers:" help:"Print the version, the limits and the prices of a server."`
	Pay     payCommand     `cmd:"" group:"Servers:" help:"Buy a session for paid reads: open a channel, pay, and print the id of the session."`
	Session sessionCommand `cmd:"" group:"Servers:" help:"Create, use and show sessions."`
	Channel channelCommand `cmd:"" group:"Servers:" help:"Open, show and close payment channels, and add to their deposits."`
	Health  healthCommand  `cmd:"" group:"Servers:" help:"Check that a server is ready: exit code 0 if it is, and 1 if not."`

	Serve       serveCommand      `cmd:"" help:"Run the service."`
	Config      configCommand     `cmd:"" help:"Check and print the configuration of serve."`
	Key         keyCommand        `cmd:"" help:"Create, list, show, change and revoke API keys."`
	Group       groupCommand      `cmd:"" help:"Show and change the limits of groups of API keys."`
	Audit       auditCommand      `cmd:"" help:"Check the ledgers of payment channels and sessions."`
	Clone       cloneCommand      `cmd:"" help:"Copy an instance, for example from a folder to PostgreSQL and an object store."`
	Migrate     migrateCommand    `cmd:"" hidden:"" help:"Deprecated: use clone."`
	Version     versionCommand    `cmd:"" help:"Print the version."`
	Completion  completionCommand `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	HelpCommand helpCommand       `cmd:"" name:"help" help:"Print the help of a command, or the list of all commands."`
}

// newCommands returns the commands with their flags for limits.
func newCommands() *commands {
	var c commands
	c.Serve.Key, c.Serve.Address = newLimitFlags(true), newLimitFlags(false)
	c.Config.Check.Key, c.Config.Check.Address = newLimitFlags(true), newLimitFlags(false)
	c.Config.Print.Key, c.Config.Print.Address = newLimitFlags(true), newLimitFlags(false)
	c.Key.Create.Limits, c.Group.Set.Limits = newLimitFlags(true), newLimitFlags(true)
	return &c
}

// run runs one command. It returns the exit code. An error is printed as one line to stderr.
//
// The Run method of a command may have a *console and a context.Context as parameters. The context is
// cancelled by Ctrl-C and SIGTERM.
func run(args []string, stdout, stderr io.Writer) int {
	exit, interrupted := -1, interruption{}
	p, err := newParser(
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.BindToProvider(interrupted.context),
	)
	if err != nil {
		return fail(stderr, err, exitFailed)
	}
	command, err := p.parse(args)
	if exit >= 0 { // --help or --version was printed
		return exit
	}
	for _, warning := range unknownVariables(p.kong.Model, environment()) {
		_, _ = fmt.Fprintf(stderr, "sluice: warning: %s\n", terminal.Text(warning)) // an error has nowhere to go
	}
	if err != nil {
		return fail(stderr, err, exitUsage)
	}
	console := &console{in: os.Stdin, out: stdout, err: stderr, parser: p, parsed: command}
	if err := interrupted.explain(command.Run(console)); err != nil {
		return fail(stderr, err, exitCode(err))
	}
	return exitOK
}

// parser parses the command line, the environment and the configuration file.
type parser struct {
	kong     *kong.Kong
	commands *commands
	read     settingsFile
}

func newParser(options ...kong.Option) (*parser, error) {
	p := &parser{commands: newCommands()}
	k, err := kong.New(p.commands, append(parserOptions(), append(options, kong.Bind(&p.read))...)...)
	if err != nil {
		return nil, err
	}
	p.kong = k
	return p, nil
}

// parse parses a command line. Its errors say what is wrong, where and what to do.
func (p *parser) parse(args []string) (*kong.Context, error) {
	command, err := p.kong.Parse(args)
	if err != nil {
		return nil, usageError(err, &p.read)
	}
	return command, nil
}

// parserOptions configures how the command line and the environment are read.
func parserOptions() []kong.Option {
	return []kong.Option{
		kong.Name("sluice"),
		kong.Description("Sluice stores blobs, serves any byte range of them, and meters the reads."),
		kong.DefaultEnvars("SLUICE"),
		kong.PostBuild(onlySettings),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
		kong.Vars(flagDefaults()),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: helpWidth}),
		kong.ValueFormatter(describeFlag),
	}
}

// onlySettings removes the environment variables of flags that are not settings. The settings are the
// flags of serve, and flags of the same name of other commands that read its configuration file. What
// a key may do, for example, is set by the command line only.
func onlySettings(k *kong.Kong) error {
	settings := settingsOf(k.Model)
	for _, command := range k.Model.Leaves(false) {
		reads := slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "config" })
		for _, flag := range command.Flags {
			if !reads || settings[flag.Name] == nil {
				flag.Envs, flag.Tag.Envs = nil, nil
			}
		}
	}
	return nil
}

// settingsOf returns the flags of serve by their names.
func settingsOf(app *kong.Application) map[string]*kong.Flag {
	settings := map[string]*kong.Flag{}
	for _, command := range app.Children {
		for _, flag := range command.Flags {
			if command.Name == "serve" {
				settings[flag.Name] = flag
			}
		}
	}
	return settings
}

// decodeDuration parses the value of a flag that is a duration.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := units.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("want a duration, such as 30s, 10m, 12h or 30d, not %q", text)
	}
	target.SetInt(int64(d))
	return nil
}

// console is what a command is given to run: its input and output, and how it was called.
type console struct {
	in       io.Reader
	out, err io.Writer
	parser   *parser
	parsed   *kong.Context
}

type versionCommand struct{}

// Help returns examples.
func (versionCommand) Help() string { return examples("sluice version") }

// Run prints the version.
func (versionCommand) Run(c *console) error {
	_, err := fmt.Fprintln(c.out, version())
	return err
}

// version returns the version of the module if the binary was built from a tagged
// version, and "dev" otherwise.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
