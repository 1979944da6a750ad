package httpapi

import "net/http"

// crossOrigin decides which hosts are answered under and which pages are
// served, and sets the headers that let pages read a reply.
type crossOrigin interface {
	admit(r *http.Request, reply http.Header) error
}

// anyOrigin is that of a hosted network: there is nothing to protect from a
// page that any program could not ask for, and no cookie or other credential
// that a browser would add by itself.
type anyOrigin struct{}

func (anyOrigin) admit(_ *http.Request, reply http.Header) error {
	setFixed(reply, "Access-Control-Allow-Origin", everyOrigin)
	setFixed(reply, "Access-Control-Expose-Headers", exposedHeaders)
	setFixed(reply, "Cross-Origin-Resource-Policy", crossOriginPolicy)
	return nil
}
