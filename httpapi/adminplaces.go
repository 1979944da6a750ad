package httpapi

import (
	"net/http"

	"sluice/wire"
)

func (s *Server) listPlaces(x *call) error {
	q, limit, err := pageOf(x)
	if err == nil {
		err = q.only("account", "after", "limit")
	}
	if err == nil {
		err = x.HoldPage(limit)
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

func (s *Server) getPlace(x *call) error {
	q, err := parameters(x, "prefix", "blob")
	if err != nil {
		return err
	}
	place, err := s.admin.Place(x.Request.Context(), by(x), x.params.Get("account"), q.text("prefix"), q.text("blob"))
	if err != nil {
		return err
	}
	return writeJSON(x, http.StatusOK, place)
}

func (s *Server) changePlace(x *call) error {
	q, err := parameters(x, "prefix", "blob")
	if err != nil {
		return err
	}
	var in wire.ChangePlace
	if _, err := x.readKnown(&in); err != nil {
		return err
	}
	place, err := s.admin.ChangePlace(x.Request.Context(), by(x), x.params.Get("account"), q.text("prefix"), q.text("blob"), in)
	if err != nil {
		return inDoubt(err, doubtError{retryable: true})
	}
	// The caller's next request sees the change. If that fails, the next poll renews the places.
	_ = s.places.Renew(x.Request.Context())
	return writeJSON(x, http.StatusOK, place)
}
