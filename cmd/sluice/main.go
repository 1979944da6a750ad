// Command sluice is a blob-storage RPC service. It stores blobs, serves any byte
// range of them, and meters the reads.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/alecthomas/kong"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// commands are the subcommands, one in each file.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the service."`
	Key     keyCommand     `cmd:"" help:"Create, list, show and revoke API keys."`
	Audit   auditCommand   `cmd:"" help:"Check the ledgers of payment channels and sessions."`
	Clone   cloneCommand   `cmd:"" help:"Copy an instance, for example from a folder to PostgreSQL and an object store."`
	Migrate migrateCommand `cmd:"" hidden:"" help:"Deprecated: use clone."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// newCommands returns the commands with their flags for limits.
func newCommands() *commands {
	var c commands
	c.Serve.Key, c.Serve.Address = newLimitFlags(true), newLimitFlags(false)
	c.Key.Create.Limits = newLimitFlags(true)
	return &c
}

// run runs one command. It returns the exit code: 0 for success, 1 for an error,
// which is printed as one line to stderr.
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
	if exit >= 0 { // --help was printed
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

// parserOptions configures how the command line, the environment and the
// configuration file are read.
func parserOptions() []kong.Option {
	return []kong.Option{
		kong.Name("sluice"),
		kong.Description("Sluice stores blobs, serves any byte range of them, and meters the reads."),
		kong.DefaultEnvars("SLUICE"),
		kong.PostBuild(onlySettings),
		kong.Configuration(readConfig),
		kong.Vars(flagDefaults()),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}
}

// onlySettings removes the environment variables of flags that are not settings.
// The settings are the flags of serve, and flags of the same name. What a key may
// do, for example, is set by the command line only.
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

// console is the output of a command.
type console struct{ out, err io.Writer }

func fail(stderr io.Writer, err error) int {
	line := strings.ReplaceAll(err.Error(), "\n", "; ")
	_, _ = fmt.Fprintf(stderr, "sluice: %s\n", line) // an error has nowhere to go
	return 1
}

type versionCommand struct{}

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
