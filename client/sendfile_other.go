//go:build !linux

package client

import "net/http"

// useSendFile does nothing: bytes are copied on these systems.
func useSendFile(*http.Transport) {}
