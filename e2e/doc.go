// Package e2e contains black-box tests of the built binary: what clients receive, what survives a
// kill, and how the process uses the machine. From the product the tests import only what a client
// needs (packages such as client, wire and micropay), the metrics' descriptions, and the database
// for a state that no request can produce. docs/protocol.md states everything else that they
// expect. Each test has a separate process, port and data folder.
package e2e
