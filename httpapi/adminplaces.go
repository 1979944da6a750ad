package httpapi

import "sluice/wire"

func (s *Server) listPlaces(x *call) error {
	q, limit, err := pageOf(x)
	if err == nil {
		err = q.only("account", "after", "limit")
	}
	if err != nil {
		return err
	}
	page, err := s.admin.Places(x.Request.Context(), by(x), q.text("account"), q.text("after"), limit)
	if err != nil {
		return err
	}
	return writePage(x, page, len(page.Places))
}

func (s *Server) changePlace(x *call, q query) (any, error) {
	var in wire.ChangePlace
	if _, err := x.readKnown(&in); err != nil {
		return nil, err
	}
	place, err := s.admin.ChangePlace(x.Request.Context(), by(x), x.params.Get("account"), q.text("prefix"), q.text("blob"), in)
	if err == nil {
		// The caller's next request sees the change. If this fails, the next poll renews them.
		_ = s.places.Renew(x.Request.Context())
	}
	return place, err
}
