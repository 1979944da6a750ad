// Package model lists the operations of Amazon S3 and the parameters and header fields of their
// requests, as Amazon's SDK for Go sends them. The list is generated from the SDK in go.mod.
package model

//go:generate go run ./gen

// Operation is one of S3's operations.
type Operation struct {
	Name       string
	Method     string
	Level      string   // "service", "bucket" or "object": the level that the request's path names
	Selectors  []string // the query parameters that every request has, besides x-id
	Parameters []string // the query parameters that a request can have
}
