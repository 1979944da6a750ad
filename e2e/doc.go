// Package e2e holds black-box tests of the built binary: what a client sees
// over the wire, what survives a kill, and what the process does to the
// machine. Of the product it knows package micropay alone, with which payers
// sign; everything else that it expects stands in the protocol. Each test has
// its own process, port and data folder.
package e2e
