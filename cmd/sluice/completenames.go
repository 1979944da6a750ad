package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// Bounds of the completion of names: a shell waits for it, and shows all of them.
const (
	completionTime = time.Second
	mostCompleted  = 1000
)

// remoteNames returns the operands on a server that begin with a word, up to the next slash, if the
// command may have one there, after a number of operands. It returns none if the server does not
// answer within completionTime or refuses, as a shell has no place for an error, and none if there
// are more than mostCompleted: a shell would take these names' common beginning for the beginning
// of all.
func remoteNames(ctx context.Context, command *kong.Node, flags map[string]string, operands int, word string) (names []string) {
	of, isRemote := remoteWord(command, operands, word)
	if !isRemote {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	server := cli.ServerFlags{URL: flags["url"], Context: flags["context"], KeyFile: expanded(flags["key-file"]), CAFile: expanded(flags["ca-file"])}
	from, err := server.ClientWith(&cli.Console{Err: io.Discard}, of.Remote.Context, client.Options{MaxAttempts: 1})
	if err != nil {
		return nil
	}
	for e, err := range from.List(ctx, of.Remote.Account, client.ListOptions{Prefix: of.Remote.Name, Delimiter: "/"}) {
		if err != nil || len(names) == mostCompleted {
			return nil
		}
		found := *of.Remote
		found.Name = e.Name + e.Prefix
		text := found.String()
		if strings.HasPrefix(word, ":") {
			text = ":" + text
		}
		if terminal.Name(text) == text { // other names could control the terminal
			names = append(names, text)
		}
	}
	return names
}

// expanded returns the path that a shell would make of a flag's value.
func expanded(path string) string {
	if path == "" {
		return ""
	}
	return kong.ExpandPath(path)
}

// remoteWord returns the operand that a word begins, after a number of operands, if it is remote
// and has an account.
func remoteWord(command *kong.Node, operands int, word string) (of operand.Operand, isRemote bool) {
	plain, withContext := remoteKinds(command.Positional, operands)
	var err error
	switch {
	case plain:
		var remote operand.Remote
		remote, err = operand.ParseRemote(word)
		of.Remote = &remote
	case withContext:
		var may cli.LocalOrRemote
		may.Operand, err = operand.Parse(word)
		cli.Resolve(&may)
		of = may.Operand
	}
	return of, err == nil && of.Remote != nil && strings.Contains(word, "/")
}

// remoteKinds reports whether an operand, after a number of operands, may be remote, and whether it
// then begins with a context or a colon. A list of sources may end before it.
func remoteKinds(all []*kong.Positional, operands int) (plain, withContext bool) {
	if len(all) == 0 {
		return false, false
	}
	last := len(all) - 1
	possible := []*kong.Positional{all[min(operands, last)]}
	if operands > 0 {
		switch all[0].Target.Interface().(type) {
		case cli.Sources[string], cli.Sources[cli.RemoteOperand], cli.Sources[cli.LocalOrRemote]:
			possible = []*kong.Positional{all[0], all[last]}
		}
	}
	for _, p := range possible {
		switch p.Target.Interface().(type) {
		case []cli.RemoteOperand, cli.Sources[cli.RemoteOperand]:
			plain = true
		case cli.RemoteOperand, cli.RemoteOrAll:
			plain = plain || operands <= last || len(possible) > 1
		case cli.LocalOrRemote:
			withContext = withContext || operands <= last || len(possible) > 1
		case cli.Sources[cli.LocalOrRemote]:
			withContext = true
		}
	}
	return plain, withContext
}
