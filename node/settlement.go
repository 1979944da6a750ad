package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"sluice/database"
	"sluice/ledger"
	"sluice/paychan"
)

// settlementProperty names the property that states where accepted payments are collected.
// Databases of earlier versions lack it: those had the ledger.
const settlementProperty = "settlement"

const inLedger = "the embedded ledger"

// place returns the place where accepted payments are collected.
func (c *Config) place(channels *paychan.Service) string {
	if len(c.ChainURLs) == 0 {
		return inLedger
	}
	receiver, _, module := channels.Payee()
	return fmt.Sprintf("chain %d, receiver %s, module %s", c.PaidOn.ID, receiver, module)
}

// settlementStore has the metadata that recordPlace uses.
type settlementStore interface {
	database.Properties
	Unsettled(ctx context.Context) (ledger.Unsettled, error)
}

// errOtherPlace is returned when accepted payments wait to be collected in another place.
var errOtherPlace = errors.New("accepted payments wait to be collected in another place")

// recordPlace records where accepted payments are collected. It returns errOtherPlace while
// payments wait that were accepted for another place: on another chain they would be lost, and the
// ledger would count them as collected. No node may run that has another place.
func recordPlace(ctx context.Context, store settlementStore, place string, log *slog.Logger) error {
	last, err := store.Property(ctx, settlementProperty)
	unknown := errors.Is(err, database.ErrNotFound)
	if unknown {
		last, err = inLedger, nil
	}
	if err != nil || last == place && !unknown {
		return err
	}
	u, err := store.Unsettled(ctx)
	if err != nil {
		return err
	}
	if last != place && u.Waiting.Channels > 0 {
		return fmt.Errorf("%w: %d units over %d channels by %s, and this node is configured for %s: start it with the former configuration, until sluice_settlements_waiting is 0",
			errOtherPlace, u.Waiting.Amount, u.Waiting.Channels, last, place)
	}
	if lost := u.Expired.Amount + u.Failed.Amount; last != place && lost > 0 {
		log.Warn("accepted payments that have expired or were refused are not collected any more", "units", lost, "before", last, "now", place)
	}
	if unknown {
		err = store.SetProperty(ctx, settlementProperty, place)
	} else {
		err = store.ReplaceProperty(ctx, settlementProperty, last, place)
	}
	// Another node, with the same place, may have been faster.
	if errors.Is(err, database.ErrExists) || errors.Is(err, database.ErrNotFound) {
		return nil
	}
	return err
}
