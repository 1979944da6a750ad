package sqlstore

import (
	"context"
	"fmt"

	"sluice/database"
	"sluice/database/sqlstore/internal/engine"
	"sluice/database/sqlstore/internal/meta"
	"sluice/database/sqlstore/internal/money"
)

// auditPage is the number of channels or sessions that an audit holds in memory.
const auditPage = 500

// Audit implements database.Maintenance on a snapshot. It reads the channels and then the sessions,
// ordered by id, a page at a time, and with each page the rows that belong to it. Its sentences
// contain only the first characters of ids, because ids are secret. It checks that
//
//   - for each channel, the sum of count times price over its sales and returns, including
//     the folded ones, plus the credit is the accepted amount; settled <= accepted <=
//     deposit; no amount is negative; a payment that was accepted and not settled is in the
//     settlement, unless it was withdrawn on the chain; nothing was booked that was not accepted;
//     and booked amounts increase with the sequence; nothing was submitted that was not accepted;
//     collected + elsewhere <= settled; once a channel was read from the chain, settled <=
//     withdrawn, and accepted <= deposit unless it has stopped;
//   - for each session, used + left = total and none of them is negative; a bought session
//     has exactly the chunksets that were sold to it, and a granted one at least those,
//     until its retention ends;
//   - no sale, settlement or booking belongs to a channel that does not exist;
//   - what is counted for each account is the number and the size of its blobs;
//   - what is counted for each shared content is the number of the blobs that have it, and no other
//     content has two blobs;
//   - the parts of each uneven content follow each other, and have the bytes of its extents and of
//     its blobs; and no other content has such parts.
func (s *Store) Audit(ctx context.Context) ([]string, error) {
	var found []string
	err := s.db.Snapshot(ctx, func(t *engine.Tx) (err error) {
		found, err = auditPages(t, auditPage)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// auditPages is Audit with that many channels or sessions in memory.
func auditPages(t *engine.Tx, page int) ([]string, error) {
	var findings []string
	total := 0
	report := func(format string, args ...any) {
		if total++; total <= database.MaxFindings {
			findings = append(findings, fmt.Sprintf(format, args...))
		}
	}
	if err := money.AuditMoney(t, page, report); err != nil {
		return nil, err
	}
	if err := meta.AuditAccounts(t, report); err != nil {
		return nil, err
	}
	if err := meta.AuditShares(t, report); err != nil {
		return nil, err
	}
	if err := meta.AuditParts(t, report); err != nil {
		return nil, err
	}
	if total > len(findings) {
		findings[len(findings)-1] = fmt.Sprintf("%d inconsistencies in all; these are the first %d", total, len(findings)-1)
	}
	return findings, nil
}
