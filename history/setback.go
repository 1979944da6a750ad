package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"sluice/database"
)

// forgotten returns how the database differs from the state that this process knows, or "".
func (h *History) forgotten(ctx context.Context, now database.HistoryState) (how string, err error) {
	if lost := h.db.LostCommits(); lost != nil {
		return strings.TrimPrefix(lost.Error(), database.ErrSetBack.Error()+": "), nil
	}
	seen := h.seen
	switch {
	case now.Generation < seen.Generation:
		return fmt.Sprintf("the database has generation %d, and had %d", now.Generation, seen.Generation), nil
	case now.Generation > seen.Generation || now.Newest == seen.Newest || seen.Newest.Number == 0:
		return "", nil
	}
	lacked, err := h.db.LackedRecords(ctx, []database.Record{seen.Newest})
	if err == nil && len(lacked) > 0 {
		how = fmt.Sprintf("the database lacks record %d, which it had", seen.Newest.Number)
	}
	return how, err
}

// notice returns database.ErrSetBack with how the instance was seen to be set back, and records
// that, with the work of this node that is lost. how is empty if this node has seen nothing itself.
func (h *History) notice(ctx context.Context, now database.HistoryState, how string) error {
	first, _, _ := strings.Cut(cmp.Or(now.SetBack, how), "\n")
	setBack := advise(fmt.Errorf("%w: %s", database.ErrSetBack, first))
	if h.reported {
		return setBack
	}
	lost, err := h.undone(ctx)
	if err == nil && (how != "" || lost != "") {
		err = h.db.RecordSetback(ctx, now.Generation, fmt.Sprintf("%s: %s%s", cmp.Or(h.opt.Node, "a node"), cmp.Or(how, "it has noticed nothing itself"), lost))
	}
	h.reported = err == nil // otherwise the next check records it
	return setBack
}

// undone returns the work that this process has done since the newest of its records that the
// database has.
// So much is lost at most, and can be done again.
func (h *History) undone(ctx context.Context) (string, error) {
	var records []database.Record
	for _, c := range h.recorded {
		records = append(records, c.record)
	}
	lacked, err := h.db.LackedRecords(ctx, records)
	if err != nil {
		return "", err
	}
	var kept Done
	for _, c := range h.recorded {
		if c.record.Number == 0 || !slices.Contains(lacked, c.record) {
			kept = c.done
		}
	}
	done := h.opt.Done()
	if done == kept {
		return "", nil
	}
	return fmt.Sprintf("; it had acknowledged since then at most %d chunksets used and %d payments", done.Chunksets-kept.Chunksets, done.Payments-kept.Payments), nil
}
