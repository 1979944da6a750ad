// Package e2e contains black-box tests of the built binary: what clients receive, what survives a
// kill, and how the process uses the machine. Of the product it imports only package micropay, with
// which payers sign; everything else that it expects is in docs/protocol.md. Each test has a
// separate process, port and data folder.
package e2e
