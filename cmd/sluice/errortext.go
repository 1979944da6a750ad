package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"sluice/client"
	"sluice/wire"
)

// describedError is an error with another text.
type describedError struct {
	text string
	err  error
}

func (e *describedError) Error() string { return e.text }
func (e *describedError) Unwrap() error { return e.err }

// about returns an error with a text that begins with its subject.
func about(subject string, err error) error {
	return &describedError{subject + ": " + lineOf(err), err}
}

// lineOf returns an error's text in one line, in which no line is repeated. It omits the package
// name client, which means nothing to users.
func lineOf(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		line = strings.TrimPrefix(strings.TrimPrefix(strings.Trim(line, " \t"), "client: "), "client/folder: ")
		if line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

// isWrongAddress reports whether a server has no such route, or something else than a service has
// responded so: then nothing is known about the thing that the request named.
func isWrongAddress(err error) bool {
	e, reported := errors.AsType[*client.Error](err)
	return reported && e.Status == http.StatusNotFound && (e.Code == "" || e.Code == wire.CodeRouteNotFound)
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
	case isWrongAddress(err):
		return fmt.Errorf("%w; the URL of a hosted network ends in its base path, such as https://blobs.example.org/sluice: see --url and --context", err)
	case errors.Is(err, client.ErrUnauthorized):
		return fmt.Errorf("%w; the key comes from --key-file, the context, SLUICE_KEY or SLUICE_KEY_FILE", err)
	default:
		return err
	}
}
