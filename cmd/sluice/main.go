// Command sluice is a blob-storage RPC service. It stores blobs, serves any byte
// range of them, and meters the reads.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"sluice/client"
	"sluice/cmd/sluice/internal/blobs"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/instances"
	"sluice/cmd/sluice/internal/keys"
	"sluice/cmd/sluice/internal/payments"
	"sluice/cmd/sluice/internal/servers"
	"sluice/cmd/sluice/internal/serving"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/logbuffer"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// commands are the subcommands. Each group in the help is a package.
type commands struct {
	Put      blobs.Put      `cmd:"" group:"Blobs:" help:"Store a file, a folder or standard input."`
	Get      blobs.Get      `cmd:"" group:"Blobs:" aliases:"download" help:"Read a blob, or all blobs below a prefix, into files."`
	Cp       blobs.Cp       `cmd:"" group:"Blobs:" help:"Copy files and blobs, also from one server to another."`
	Mv       blobs.Mv       `cmd:"" group:"Blobs:" help:"Move blobs: give them other names."`
	Sync     blobs.Sync     `cmd:"" group:"Blobs:" help:"Make a folder or a prefix like another."`
	Mirror   blobs.Mirror   `cmd:"" group:"Blobs:" help:"Keep the blobs of a server equal to those of another."`
	Ls       blobs.Ls       `cmd:"" group:"Blobs:" aliases:"list" help:"List the names of blobs."`
	Find     blobs.Find     `cmd:"" group:"Blobs:" help:"Find blobs by their names, sizes and ages."`
	Cat      blobs.Cat      `cmd:"" group:"Blobs:" help:"Write blobs to standard output."`
	Stat     blobs.Stat     `cmd:"" group:"Blobs:" help:"Print the properties of blobs."`
	Rm       blobs.Rm       `cmd:"" group:"Blobs:" help:"Delete blobs."`
	Undelete blobs.Undelete `cmd:"" group:"Blobs:" help:"Restore blobs that were deleted or replaced, from the versions that an account keeps."`
	Lock     blobs.Lock     `cmd:"" group:"Blobs:" help:"Lock versions of blobs until a time, or set a legal hold."`
	Du       blobs.Du       `cmd:"" group:"Blobs:" help:"Print how many blobs there are and how much they store."`
	Watch    blobs.Watch    `cmd:"" group:"Blobs:" help:"Print changes as they are made."`
	Share    blobs.Share    `cmd:"" group:"Blobs:" help:"Make a signed link to a blob, for people without a key."`
	Root     blobs.Root     `cmd:"" group:"Blobs:" help:"Print the roots to which the network commits files. It needs no server."`
	Upload   blobs.Upload   `cmd:"" group:"Blobs:" help:"List and abort uploads. With a file and a blob it is put."`

	Context     servers.Context     `cmd:"" group:"Servers:" help:"Name servers, and choose the one to use."`
	Info        servers.Info        `cmd:"" group:"Servers:" help:"Print the version, the limits and the prices of a server."`
	Health      servers.Health      `cmd:"" group:"Servers:" help:"Check that a server is ready: exit code 0 if it is, and 1 if not."`
	Bench       servers.Bench       `cmd:"" group:"Servers:" help:"Measure the throughput and the latencies of a server."`
	Conformance servers.Conformance `cmd:"" group:"Servers:" help:"Check whether a server speaks the interface."`

	Account payments.Account `cmd:"" group:"Payments:" help:"Make the key pair that signs micropayments, and show its address."`
	Pay     payments.Pay     `cmd:"" group:"Payments:" help:"Buy a session for paid reads: open a channel, pay, and print the id of the session."`
	Session payments.Session `cmd:"" group:"Payments:" help:"Create, use and show sessions."`
	Channel payments.Channel `cmd:"" group:"Payments:" help:"Open, show and close payment channels, and add to their deposits."`

	Serve  serving.Serve  `cmd:"" group:"Running a server:" help:"Run the service."`
	Config serving.Config `cmd:"" group:"Running a server:" help:"Check and print the configuration of serve."`

	Key    keys.Key    `cmd:"" group:"Keys, buckets and places:" help:"Create, list, show, change and revoke API keys."`
	Group  keys.Group  `cmd:"" group:"Keys, buckets and places:" help:"Show and change the limits of groups of API keys."`
	Bucket keys.Bucket `cmd:"" group:"Keys, buckets and places:" help:"Manage aliases for the buckets of S3's clients, and which buckets keep versions."`
	Place  keys.Place  `cmd:"" group:"Keys, buckets and places:" help:"Set who may read and list blobs, and block them."`

	Check   instances.Check   `cmd:"" group:"Instances:" help:"Check everything that an instance stores for damage."`
	Backup  instances.Backup  `cmd:"" group:"Instances:" help:"Make, list, verify and remove backups of an instance."`
	Restore instances.Restore `cmd:"" group:"Instances:" help:"Make an instance of a backup."`
	Recover instances.Recover `cmd:"" group:"Instances:" help:"Continue with an instance that was set back to an older state."`
	Resume  instances.Resume  `cmd:"" group:"Instances:" help:"Continue, once, a task that a safety brake has stopped: settling, or a large sweep."`
	Task    instances.Task    `cmd:"" group:"Instances:" help:"List, start, pause and resume background tasks."`
	Webhook instances.Webhook `cmd:"" group:"Instances:" help:"Let a server deliver changes to URLs."`
	Node    instances.Node    `cmd:"" group:"Instances:" help:"List the nodes that run."`
	Action  instances.Action  `cmd:"" group:"Instances:" help:"List the recorded actions of administrators."`

	Version     versionCommand    `cmd:"" group:"Other:" help:"Print the version, as sluice --version and sluice -v do."`
	Completion  completionCommand `cmd:"" group:"Other:" help:"Print a script that completes commands, flags and names of blobs in a shell."`
	HelpCommand helpCommand       `cmd:"" group:"Other:" name:"help" help:"Print the help of a command, or the list of all commands."`
}

// newCommands returns the commands with the flags that are made of tables.
func newCommands() *commands {
	var c commands
	c.Serve.ServeFlags, c.Config.Check.ServeFlags, c.Config.Print.ServeFlags = settings.NewServeFlags(), settings.NewServeFlags(), settings.NewServeFlags()
	c.Key.Create.Limits, c.Group.Set.NewLimits = settings.NewLimitFlags(), settings.NewLimitFlags()
	return &c
}

// run runs one command. It returns the exit code. An error is printed as one line to stderr.
//
// A command's Run method may have these parameters: a *cli.Console, a context.Context, which Ctrl-C
// and SIGTERM cancel, the *parser, the parsed *kong.Context and the *settings.File.
func run(args []string, stdout, stderr io.Writer) int {
	exit, interrupted, all, lines := -1, interruption{}, newCommands(), messages{stderr: stderr}
	p, err := newParser(all,
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exit = code }),
		kong.BindToProvider(interrupted.context),
	)
	if err != nil {
		return lines.fail(err, cli.ExitFailed)
	}
	command, err := p.parse(args)
	if exit >= 0 { // --help was printed
		return exit
	}
	if command != nil && command.Selected() != nil && command.Selected().Name == "serve" {
		lines.format = all.Serve.Read().LogFormat
	}
	for _, warning := range unknownVariables(p.kong.Model, settings.Environment()) {
		lines.warn(warning)
	}
	if err != nil {
		return lines.fail(err, cli.ExitUsage)
	}
	console := &cli.Console{In: os.Stdin, Out: stdout, Err: stderr}
	if err := interrupted.explain(command.Run(console, p, &p.read, command)); err != nil {
		return lines.fail(advise(command.Selected(), err), cli.ExitCode(err))
	}
	return cli.ExitOK
}

// Help returns the exit codes, which the list of all commands adds.
func (*commands) Help() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n\n")
	for _, c := range cli.ExitCodes {
		_, _ = fmt.Fprintf(&b, "    %-3d  %s\n", c.Code, c.Meaning)
	}
	return b.String()
}

// messages prints lines that are not the log's, to stderr. If that fails, there is nowhere to
// report it.
type messages struct {
	stderr io.Writer
	format logbuffer.Format // JSON: lines are like the log's
}

// warn prints a warning.
func (m messages) warn(text string) { m.print(slog.LevelWarn, "warning: ", text) }

// fail prints an error as one line, and returns code.
func (m messages) fail(err error, code int) int {
	m.print(slog.LevelError, "", cli.LineOf(err))
	return code
}

func (m messages) print(level slog.Level, prefix, text string) {
	if m.format == logbuffer.JSON {
		log, _ := logbuffer.New(m.stderr, logbuffer.Soon).Loggers(m.format, nil)
		log.Log(context.Background(), level, text)
		return
	}
	_, _ = fmt.Fprintf(m.stderr, "sluice: %s%s\n", prefix, terminal.Text(text)) // which cannot control the terminal
}

// interruption is a command's context, which the signals of endings cancel. It takes no notice of
// them until a command uses the context: serve handles them otherwise.
type interruption struct{ ctx context.Context }

// context returns the context. It is cancelled by the first signal; the second one ends the
// process.
func (i *interruption) context() context.Context {
	if i.ctx == nil {
		ctx, stop := signal.NotifyContext(context.Background(), cli.Endings()...)
		context.AfterFunc(ctx, stop)
		i.ctx = ctx
	}
	return i.ctx
}

// explain returns a command's error, with an interruption's exit code if that was its cause.
func (i *interruption) explain(err error) error {
	switch {
	case err == nil || i.ctx == nil || i.ctx.Err() == nil:
		return err
	case errors.Is(err, context.Canceled):
		return cli.ExitWith(cli.ExitInterrupted, errors.New("interrupted"))
	default:
		return cli.ExitWith(cli.ExitInterrupted, err)
	}
}

// advise returns a command's error, with advice if it uses a server and there was none, or no valid
// key.
func advise(command *kong.Node, err error) error {
	if !slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "url" }) {
		return err
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w; sluice serve starts a server, and --url or --context names another", err)
	case cli.IsWrongAddress(err) && settings.FlagOf(command, "data") != nil:
		return fmt.Errorf("%w; the server's URL ends in its base path, and its operator may have moved administration to another address (serve --admin-api)", err)
	case cli.IsWrongAddress(err):
		return fmt.Errorf("%w; the URL of a hosted network ends in its base path, such as https://blobs.example.org/sluice: see --url and --context", err)
	case errors.Is(err, client.ErrUnauthorized):
		return fmt.Errorf("%w; the key comes from --key-file, the context, SLUICE_KEY or SLUICE_KEY_FILE", err)
	default:
		return err
	}
}
