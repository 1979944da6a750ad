// Package headers parses and evaluates header fields of HTTP: ranges and conditions (RFC 9110,
// sections 13 and 14) and digests (RFC 9530). It performs no I/O and knows no requests.
package headers
