package node

import (
	"net"
	"net/http"
)

// doors sends each request to the interface that listens on its port.
type doors struct {
	native, s3 http.Handler
	s3Port     int // 0: S3 is not served
}

// ServeHTTP implements http.Handler.
func (d doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && d.s3Port != 0 && addr.Port == d.s3Port {
		d.s3.ServeHTTP(w, r)
		return
	}
	d.native.ServeHTTP(w, r)
}
