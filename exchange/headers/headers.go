// Package headers parses and evaluates header fields of HTTP: ranges and conditions (RFC 9110,
// sections 13 and 14), digests (RFC 9530), Cache-Control (RFC 9111), and the headers that describe
// a blob. It performs no I/O and knows no requests.
package headers
