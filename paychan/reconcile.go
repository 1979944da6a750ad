package paychan

import (
	"context"

	"sluice/ledger"
)

// Reconciliation is a channel in the books and on the chain.
type Reconciliation struct {
	Books ledger.Channel
	Chain ledger.Reading
	After *ledger.Channel // the books after the reading was recorded; nil: it was not
}

// Reconcile reads a channel from the chain and, if write is set, records the reading, even if it
// shows less than an earlier one. It returns
// database.ErrNotFound, ErrNoChain or ErrChain.
func (s *Service) Reconcile(ctx context.Context, id string, write bool) (Reconciliation, error) {
	if s.chain == nil {
		return Reconciliation{}, ErrNoChain
	}
	books, err := s.meta.Channel(ctx, id)
	if err != nil {
		return Reconciliation{}, err
	}
	read, err := s.chain.read(ctx, books.Sender, books.Asset, books.PaymentChannelID)
	if err != nil || !write {
		return Reconciliation{Books: books, Chain: read}, err
	}
	read.Corrects = true
	after, err := s.meta.RecordReading(ctx, id, read)
	return Reconciliation{Books: books, Chain: read, After: &after}, err
}
