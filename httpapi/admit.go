package httpapi

import (
	"fmt"
	"strings"

	"sluice/exchange"
	"sluice/httpapi/internal/router"
	"sluice/wire/link"
)

// admit admits an exchange. Probes and preflights must get a response even if the limits of their
// caller are reached.
func (s *Server) admit(x *call, m router.Match[operation]) error {
	if m.Outcome == router.Options || m.Route != nil && m.Route.Value.probe {
		return x.AdmitProbe()
	}
	key, err := parseCredential(x.Request.Header)
	if err != nil {
		return x.Admit(nil, err)
	}
	if s.keys != nil && strings.Contains(x.Request.URL.RawQuery, link.Parameter) {
		return s.admitLink(x, m, key)
	}
	if key == "" {
		return x.Admit(nil, nil)
	}
	return x.Admit(bearer(key), nil)
}

// admitLink admits an exchange with a query that may have a link.
func (s *Server) admitLink(x *call, m router.Match[operation], key string) error {
	followed, err := s.followed(x, m)
	switch {
	case err != nil:
		return x.Admit(nil, err)
	case followed == nil && key == "":
		return x.Admit(nil, nil)
	case followed == nil:
		return x.Admit(bearer(key), nil)
	case key != "":
		return x.Admit(nil, fmt.Errorf("%w: there is a link and a key; send one of them", exchange.ErrBadCredential))
	}
	err = x.Admit(followed, nil)
	switch {
	case x.BadCredential != nil && followed.err != nil:
		x.BadCredential = followed.err
	case x.Caller != nil:
		x.linked, x.linkEnds = true, followed.token.Expires()
		if followed.token.Verb() == link.Create {
			x.Request.Header.Set("If-None-Match", "*")
		}
	}
	return err
}

// followed returns the link in the query, or nil if there is none. It returns errLinkForbidden if
// no link permits the request.
func (s *Server) followed(x *call, m router.Match[operation]) (*linked, error) {
	q, err := readQuery(x.Request)
	if err != nil {
		return nil, err
	}
	if _, ok := q[link.Parameter]; !ok {
		return nil, nil
	}
	token, err := link.Parse(q.text(link.Parameter))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", exchange.ErrBadCredential, err)
	}
	if m.Route == nil || m.Route.Value.link != token.Verb() {
		return nil, fmt.Errorf("%w: it permits to %s", errLinkForbidden, token.Verb())
	}
	followed := &linked{token: token, account: q.text("account"), now: s.blobs.Now}
	if strings.Contains(m.Pattern, "{account}") {
		followed.account = x.params.Get("account")
	}
	switch {
	case !m.Route.Value.lists:
		followed.name = x.params.Get("blobName")
	case token.Below():
		followed.name = q.text("prefix")
	default:
		return nil, fmt.Errorf("%w: it is for a single blob", errLinkForbidden)
	}
	return followed, nil
}
