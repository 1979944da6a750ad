// Command sluice is a blob-storage RPC service: it stores blobs, serves any
// byte range of them, and meters the reads.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/paychan"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// commands are the subcommands, each in a file of its own.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the service."`
	Key     keyCommand     `cmd:"" help:"Make, list, show and revoke API keys."`
	Audit   auditCommand   `cmd:"" help:"Check the ledgers of channels and sessions."`
	Migrate migrateCommand `cmd:"" help:"Copy an instance to another place, such as from a folder to PostgreSQL and an object store."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// newCommands returns the commands, with flags for limits.
func newCommands() *commands {
	var c commands
	c.Serve.Key, c.Serve.Address = newLimitFlags(true), newLimitFlags(false)
	c.Key.Create.Limits = newLimitFlags(true)
	return &c
}

// run runs one command and gives the exit code: 0 for success, 1 for a failure,
// which one line on stderr explains.
func run(args []string, stdout, stderr io.Writer) int {
	exit := -1
	parser, err := kong.New(newCommands(), append(parserOptions(),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
	)...)
	if err != nil {
		return fail(stderr, err)
	}
	command, err := parser.Parse(args)
	if exit >= 0 { // --help was asked for, and printed
		return exit
	}
	if err != nil {
		return fail(stderr, err)
	}
	if err := command.Run(&console{out: stdout, err: stderr}); err != nil {
		return fail(stderr, err)
	}
	return 0
}

// parserOptions are how the command line, the environment and the
// configuration file are read.
func parserOptions() []kong.Option {
	return []kong.Option{
		kong.Name("sluice"),
		kong.Description("Stores blobs, serves any byte range of them, and meters the reads."),
		kong.DefaultEnvars("SLUICE"),
		kong.PostBuild(onlySettings),
		kong.Configuration(readConfig),
		kong.Vars{
			"asset": paychan.DefaultAsset, "module": paychan.DefaultModule,
			"data": "./sluice-data", "max_connections": strconv.Itoa(mostConnections),
		},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}
}

// onlySettings leaves the variables to the settings, which are the flags of
// serve. What is said anew with each command must not come from elsewhere.
func onlySettings(k *kong.Kong) error {
	settings := map[string]bool{}
	for _, command := range k.Model.Children {
		for _, flag := range command.Flags {
			settings[flag.Name] = settings[flag.Name] || command.Name == "serve"
		}
	}
	for _, command := range k.Model.Leaves(false) {
		for _, flag := range command.Flags {
			if !settings[flag.Name] {
				flag.Envs, flag.Tag.Envs = nil, nil
			}
		}
	}
	return nil
}

// console is where a command writes.
type console struct{ out, err io.Writer }

func fail(stderr io.Writer, err error) int {
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	_, _ = fmt.Fprintf(stderr, "sluice: %s\n", line) // there is nowhere else to tell it
	return 1
}

type versionCommand struct{}

// Run prints the version on a line.
func (versionCommand) Run(c *console) error {
	_, err := fmt.Fprintln(c.out, version())
	return err
}

// version is the module's version where the binary was built from a tagged one,
// else "dev".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}
