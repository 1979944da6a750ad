package httpapi

import (
	"net/http"

	"sluice/metastore"
	"sluice/wire"
)

// The operations of this file exist on a local instance only, because they list ids.

func (s *Server) listSessions(x *exchange) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	sessions, err := s.inspection.ListSessions(x.r.Context(), q.text("after"), limit+1)
	if err != nil {
		return sessionError(err)
	}
	var out wire.SessionPage
	if len(sessions) > limit {
		sessions = sessions[:limit]
		out.Next = sessions[limit-1].ID
	}
	for _, one := range sessions {
		out.Sessions = append(out.Sessions, sessionJSON(one))
	}
	return writeJSON(x, http.StatusOK, out)
}

func (s *Server) listChannels(x *exchange) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	channels, err := s.inspection.ListChannels(x.r.Context(), q.text("after"), limit+1)
	if err != nil {
		return err
	}
	var out wire.ChannelPage
	if len(channels) > limit {
		channels = channels[:limit]
		out.Next = channels[limit-1].ID
	}
	for _, one := range channels {
		out.Channels = append(out.Channels, s.channelJSON(one))
	}
	return writeJSON(x, http.StatusOK, out)
}

// getLedger sends the ledger of a channel with a page of its sales.
func (s *Server) getLedger(x *exchange) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	id := x.params.Get("channelId")
	ledger, err := s.inspection.Ledger(x.r.Context(), id)
	if err != nil {
		return channelError(err)
	}
	sales, err := s.inspection.Sales(x.r.Context(), id, q.text("after"), limit+1)
	if err != nil {
		return channelError(err)
	}
	out := wire.Ledger{Channel: s.channelJSON(ledger.Channel), FoldedAmount: decimal(ledger.Folded)}
	if len(sales) > limit {
		sales = sales[:limit]
		out.Next = sales[limit-1].ID
	}
	for _, one := range sales {
		out.Sales = append(out.Sales, saleJSON(one))
	}
	if p := ledger.Pending; p != nil {
		out.Settlements = append(out.Settlements, wire.Settlement{State: "pending", SequenceNumber: decimal(p.Sequence), Amount: decimal(p.Amount), Time: p.Expires})
	}
	if p := ledger.Paid; p != nil {
		out.Settlements = append(out.Settlements, wire.Settlement{State: "settled", SequenceNumber: decimal(p.Sequence), Amount: decimal(p.Amount), Time: ledger.PaidAt})
	}
	return writeJSON(x, http.StatusOK, out)
}

func saleJSON(s metastore.Sale) wire.Sale {
	out := wire.Sale{SessionID: s.Session, Chunksets: s.Count, Price: decimal(s.Price), Time: s.Time}
	if s.Payment {
		out.SequenceNumber = decimal(s.Sequence)
	}
	return out
}

// pageOf returns the query of a list, and its limit.
func pageOf(x *exchange) (query, int, error) {
	q, err := readQuery(x.r)
	if err != nil {
		return q, 0, err
	}
	limit, err := q.limit()
	return q, limit, err
}
