// Package e2e starts the built binary for the black-box tests in its folders: servers, nodes behind
// proxies, payers, chains, browsers, and commands. The tests see the responses to clients, the data
// that survive a kill, and how the process uses the machine. From the product they import only the
// packages for clients (such as client, wire and micropay), the metrics' descriptions, and the
// database for a state that no request can produce. docs/protocol.md states everything else that
// they expect. Each test has a separate process, port and data folder, unless it only reads from a
// shared one.
package e2e
