package s3api

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"sluice/exchange"
	"sluice/wire"
)

// hosts decides which bucket a request's host names. A host that may name a bucket of a domain that
// is not configured is refused: with the bucket taken from the path, the request would read or
// change another bucket.
type hosts struct {
	domains []string // below which buckets are hosts; a longer one precedes a shorter one
	own     string   // the native interface's host, or ""
	local   bool     // the instance is local, where exchange.Door refuses unknown hosts
}

func newHosts(domains []string, own string, local bool) hosts {
	h := hosts{domains: slices.Clone(domains), own: own, local: local}
	if local {
		h.domains = append(h.domains, "localhost")
	}
	slices.SortFunc(h.domains, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return h
}

// find returns the bucket that a host in exchange.HostOnly's form names, which is "" for a domain,
// and reports whether the host is a domain or below one.
func (h hosts) find(host string) (bucket string, known bool) {
	for _, domain := range h.domains {
		if host == domain {
			return "", true
		}
		if bucket, below := strings.CutSuffix(host, "."+domain); below && bucket != "" {
			return bucket, true
		}
	}
	return "", false
}

// bucket returns the bucket that a request's host names, or "" if the path names it.
func (h hosts) bucket(hostport string) (string, error) {
	host := exchange.HostOnly(hostport)
	bucket, known := h.find(host)
	_, err := netip.ParseAddr(host)
	switch {
	case known, h.local, host == "", err == nil, host == "localhost":
		return bucket, nil
	case len(h.domains) > 0:
		return "", refuseWith("AccessForbidden", wire.CodeForeignHost, "the host %.255q is neither %s nor below it; the operator can add it to --s3-domain", host, strings.Join(h.domains, " nor "))
	case h.own != "" && strings.HasSuffix(host, "."+h.own), strings.HasSuffix(host, ".localhost"), hasLabelOfS3(host):
		return "", refuseWith("AccessForbidden", wire.CodeForeignHost, "the host %.255q seems to name a bucket, which needs --s3-domain; use the path style, or ask the operator for the domain", host)
	}
	return "", nil
}

// hasLabelOfS3 reports whether a label behind the first one is "s3" or begins with "s3-", as in
// Amazon's names of buckets' hosts.
func hasLabelOfS3(host string) bool {
	_, behind, _ := strings.Cut(host, ".")
	return strings.HasPrefix(behind, "s3.") || strings.HasPrefix(behind, "s3-") || strings.Contains(behind, ".s3.") || strings.Contains(behind, ".s3-")
}
