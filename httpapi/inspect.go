package httpapi

import (
	"sluice/exchange"
	"sluice/ledger"
	"sluice/wire"
)

// The operations of this file list ids, so that only operators may call them.

func (s *Server) listSessions(x *call) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	sessions, more, err := s.inspection.ListSessions(x.Request.Context(), q.text("after"), limit, exchange.PageBytes)
	if err != nil {
		return sessionError(err)
	}
	out := wire.SessionPage{Next: nextOf(sessions, more, func(s ledger.Session) string { return s.ID })}
	for _, one := range sessions {
		out.Sessions = append(out.Sessions, sessionJSON(one))
	}
	return writePage(x, out, len(out.Sessions))
}

func (s *Server) listChannels(x *call) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	channels, err := s.inspection.ListChannels(x.Request.Context(), q.text("after"), limit+1)
	if err != nil {
		return err
	}
	var out wire.ChannelPage
	channels, out.Next = cutPage(channels, limit, func(c ledger.Channel) string { return c.ID })
	for _, one := range channels {
		out.Channels = append(out.Channels, s.channelJSON(one))
	}
	return writePage(x, out, len(out.Channels))
}

// getLedger sends a channel's ledger with a page of its sales.
func (s *Server) getLedger(x *call) error {
	q, limit, err := pageOf(x)
	if err != nil {
		return err
	}
	id := x.params.Get("channelId")
	statement, err := s.inspection.Statement(x.Request.Context(), id)
	if err != nil {
		return channelError(err)
	}
	sales, err := s.inspection.Sales(x.Request.Context(), id, q.text("after"), limit+1)
	if err != nil {
		return channelError(err)
	}
	out := wire.Ledger{Channel: s.channelJSON(statement.Channel), FoldedAmount: decimal(statement.Folded)}
	sales, out.Next = cutPage(sales, limit, func(s ledger.Sale) string { return s.ID })
	for _, one := range sales {
		out.Sales = append(out.Sales, saleJSON(one))
	}
	if p := statement.Pending; p != nil {
		out.Settlements = append(out.Settlements, wire.Settlement{State: "pending", SequenceNumber: decimal(p.Sequence), Amount: decimal(p.Amount), Time: p.Expires})
	}
	if p := statement.Booked; p != nil {
		out.Settlements = append(out.Settlements, wire.Settlement{State: "settled", SequenceNumber: decimal(p.Sequence), Amount: decimal(p.Amount), Time: statement.BookedAt})
	}
	return writePage(x, out, len(out.Sales))
}

func saleJSON(s ledger.Sale) wire.Sale {
	out := wire.Sale{SessionID: s.Session, Chunksets: s.Count, Price: decimal(s.Price), Time: s.Time}
	if s.Payment {
		out.SequenceNumber = decimal(s.Sequence)
	}
	return out
}
