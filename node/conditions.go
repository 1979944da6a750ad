package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"sluice/storage"
)

// A node's conditions, in addition to its stores'.
const (
	clockKnown    storage.ConditionName = "clock"     // the database's time is known
	settingsAgree storage.ConditionName = "settings"  // all nodes have the same settings
	answersInTime storage.ConditionName = "no_answer" // the stores answer within a second; only in the metrics
	notDraining   storage.ConditionName = "draining"  // the node does not shut down; only in the metrics
)

// conditionNames are the names of all conditions.
var conditionNames = append(slices.Clone(storage.ConditionNames), clockKnown, settingsAgree, answersInTime, notDraining)

// ready returns an error that states why nothing can be written now, or nil. It records the
// conditions that are not met.
func (n *Node) ready(ctx context.Context) error {
	conditions := append(slices.Clone(n.stores.Conditions),
		storage.Condition{Name: clockKnown, Check: func(context.Context) error { return n.stores.Meta.ClockErr() }})
	if n.members != nil {
		conditions = append(conditions, storage.Condition{Name: settingsAgree, Check: func(context.Context) error { return n.members.err() }})
	}
	var errs []error
	var unmet []storage.ConditionName
	for _, c := range conditions {
		if err := c.Check(ctx); err != nil {
			errs, unmet = append(errs, err), append(unmet, c.Name)
		}
	}
	if before := n.unmet.Swap(&unmet); before == nil || !slices.Equal(*before, unmet) {
		n.members.stateChanged()
	}
	return errors.Join(errs...)
}

// readyTimeout is how long a scrape waits for the stores.
const readyTimeout = time.Second

// unmetConditions returns the conditions that are not met now. It shares its checks with /readyz.
// Its error is always nil.
func (n *Node) unmetConditions(ctx context.Context) ([]storage.ConditionName, error) {
	if n.api.Draining() {
		return []storage.ConditionName{notDraining}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := n.api.Ready(ctx)
	if unmet := n.unmet.Load(); unmet != nil && ctx.Err() == nil {
		return *unmet, nil
	}
	if err != nil {
		return []storage.ConditionName{answersInTime}, nil
	}
	return nil, nil
}
