// Package e2e holds black-box tests of the built binary: what a client sees
// over the wire, what survives a kill, and what the process does to the
// machine. It knows no package of the product; everything it expects stands in
// the protocol. Each test has its own process, port and data folder.
package e2e
