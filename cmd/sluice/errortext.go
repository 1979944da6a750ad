package main

import "strings"

// describedError is an error with another text.
type describedError struct {
	text string
	err  error
}

func (e *describedError) Error() string { return e.text }
func (e *describedError) Unwrap() error { return e.err }

// about returns an error whose text begins with what it is about.
func about(subject string, err error) error {
	return &describedError{subject + ": " + lineOf(err), err}
}

// lineOf returns the text of an error in one line, without the name of the package client, which has no
// meaning for users.
func lineOf(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		lines = append(lines, strings.TrimPrefix(line, "client: "))
	}
	return strings.Join(lines, "; ")
}
