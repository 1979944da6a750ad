// Command sluice is a blob-storage RPC service. It stores blobs, serves any byte
// range of them, and meters the reads.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
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
	Mv     mvCommand     `cmd:"" group:"Blobs:" help:"Move blobs: give them other names."`
	Sync   syncCommand   `cmd:"" group:"Blobs:" help:"Make a folder or a prefix like another."`
	Ls     lsCommand     `cmd:"" group:"Blobs:" aliases:"list" help:"List the names of blobs."`
	Find   findCommand   `cmd:"" group:"Blobs:" help:"Find blobs by their names, sizes and ages."`
	Cat    catCommand    `cmd:"" group:"Blobs:" help:"Write blobs to standard output."`
	Stat   statCommand   `cmd:"" group:"Blobs:" help:"Print the properties of blobs."`
	Rm     rmCommand     `cmd:"" group:"Blobs:" help:"Delete blobs."`
	Du     duCommand     `cmd:"" group:"Blobs:" help:"Print how many blobs there are and how much they store."`
	Share  shareCommand  `cmd:"" group:"Blobs:" help:"Make a signed link to a blob, for people without a key."`
	Upload uploadCommand `cmd:"" group:"Blobs:" help:"List and abort uploads. With a file and a blob it is put."`

	Context     contextCommand     `cmd:"" group:"Servers:" help:"Name servers, and choose the one to use."`
	Account     accountCommand     `cmd:"" group:"Servers:" help:"Make the key pair that signs micropayments, and show its address."`
	Info        infoCommand        `cmd:"" group:"Servers:" help:"Print the version, the limits and the prices of a server."`
	Pay         payCommand         `cmd:"" group:"Servers:" help:"Buy a session for paid reads: open a channel, pay, and print the id of the session."`
	Session     sessionCommand     `cmd:"" group:"Servers:" help:"Create, use and show sessions."`
	Channel     channelCommand     `cmd:"" group:"Servers:" help:"Open, show and close payment channels, and add to their deposits."`
	Health      healthCommand      `cmd:"" group:"Servers:" help:"Check that a server is ready: exit code 0 if it is, and 1 if not."`
	Bench       benchCommand       `cmd:"" group:"Servers:" help:"Measure the throughput and the latencies of a server."`
	Conformance conformanceCommand `cmd:"" group:"Servers:" help:"Check whether a server speaks the interface."`

	Serve       serveCommand      `cmd:"" group:"Running a server:" help:"Run the service."`
	Config      configCommand     `cmd:"" group:"Running a server:" help:"Check and print the configuration of serve."`
	Key         keyCommand        `cmd:"" group:"Running a server:" help:"Create, list, show, change and revoke API keys."`
	Group       groupCommand      `cmd:"" group:"Running a server:" help:"Show and change the limits of groups of API keys."`
	Bucket      bucketCommand     `cmd:"" group:"Running a server:" help:"Make, list and remove aliases for the buckets of S3's clients."`
	Check       checkCommand      `cmd:"" group:"Running a server:" help:"Check everything that an instance stores for damage."`
	Resume      resumeCommand     `cmd:"" group:"Running a server:" help:"Continue, once, a task that a safety brake has stopped: settling, or a large sweep."`
	Recover     recoverCommand    `cmd:"" group:"Running a server:" help:"Continue with an instance that was set back to an older state."`
	Backup      backupCommand     `cmd:"" group:"Running a server:" help:"Make, list, verify and remove backups of an instance."`
	Restore     restoreCommand    `cmd:"" group:"Running a server:" help:"Make an instance of a backup."`
	Version     versionCommand    `cmd:"" group:"Other:" help:"Print the version."`
	Completion  completionCommand `cmd:"" group:"Other:" help:"Print a script that completes commands, flags and names of blobs in a shell."`
	HelpCommand helpCommand       `cmd:"" group:"Other:" name:"help" help:"Print the help of a command, or the list of all commands."`
}

// newCommands returns the commands with the flags that are made of tables.
func newCommands() *commands {
	var c commands
	c.Serve.serveFlags, c.Config.Check.serveFlags, c.Config.Print.serveFlags = newServeFlags(), newServeFlags(), newServeFlags()
	c.Key.Create.Limits, c.Group.Set.Limits = newLimitFlags(), newLimitFlags()
	return &c
}

// run runs one command. It returns the exit code. An error is printed as one line to stderr.
//
// A command's Run method may have a *console and a context.Context as parameters. The context is
// cancelled by Ctrl-C and SIGTERM.
func run(args []string, stdout, stderr io.Writer) int {
	exit, interrupted, all, lines := -1, interruption{}, newCommands(), messages{stderr: stderr}
	p, err := newParser(all,
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.BindToProvider(interrupted.context),
	)
	if err != nil {
		return lines.fail(err, exitFailed)
	}
	command, err := p.parse(args)
	if exit >= 0 { // --help or --version was printed
		return exit
	}
	if command != nil && command.Selected() != nil && command.Selected().Name == "serve" {
		lines.format = all.Serve.read().logFormat
	}
	for _, warning := range unknownVariables(p.kong.Model, environment()) {
		lines.warn(warning)
	}
	if err != nil {
		return lines.fail(err, exitUsage)
	}
	another := func(options ...kong.Option) (*parser, error) { return newParser(newCommands(), options...) }
	console := &console{newParser: another, in: os.Stdin, out: stdout, err: stderr, parser: p, parsed: command}
	if err := interrupted.explain(command.Run(console)); err != nil {
		return lines.fail(advise(command.Selected(), err), exitCode(err))
	}
	return exitOK
}

// Help returns the exit codes, which the list of all commands adds.
func (*commands) Help() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n\n")
	for _, c := range exitCodes {
		_, _ = fmt.Fprintf(&b, "    %-3d  %s\n", c.code, c.meaning)
	}
	return b.String()
}
