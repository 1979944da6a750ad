// Package e2e starts the built binary for the black-box tests in its folders: servers, nodes behind
// proxies, payers, chains, browsers, and commands. The tests see what clients receive, what
// survives a kill, and how the process uses the machine. From the product they import only what a
// client needs (packages such as client, wire and micropay), the metrics' descriptions, and the
// database for a state that no request can produce. docs/protocol.md states everything else that
// they expect. Each test has a separate process, port and data folder, unless it only reads what a
// shared one has.
package e2e
