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
//   - each account's counts are the number and the size of its blobs;
//   - each shared content's count is how many blobs have it, and no other content has two blobs;
//   - the parts of each uneven content follow each other, and have the bytes of its extents and of
//     its blobs; and no other content has such parts;
//   - the extents of each content that is not garbage follow each other, and have the bytes of its
//     blobs, or of the parts of its open upload, which add up; each content has a blob, an open
//     upload or is garbage, and each body an extent;
//   - each owner's usage is the sum of the things that are stored and retained for it.
func (s *Store) Audit(ctx context.Context) ([]string, error) {
	findings, total, err := s.AuditAll(ctx)
	if total > len(findings) {
		findings[len(findings)-1] = fmt.Sprintf("%d inconsistencies in all; these are the first %d", total, len(findings)-1)
	}
	return findings, err
}

// AuditAll is Audit with the number of all inconsistencies, of which it returns the first. It takes
// as long as that takes, on PostgreSQL until ctx ends.
func (s *Store) AuditAll(ctx context.Context) (findings []string, total int, err error) {
	err = s.db.Survey(ctx, func(t *engine.Tx) (err error) {
		findings, total, err = auditPages(t, auditPage)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return findings, total, nil
}

// auditPages is AuditAll with that many channels or sessions in memory.
func auditPages(t *engine.Tx, page int) (findings []string, total int, err error) {
	report := func(format string, args ...any) {
		if total++; total <= database.MaxFindings {
			findings = append(findings, fmt.Sprintf(format, args...))
		}
	}
	if err := money.AuditMoney(t, page, report); err != nil {
		return nil, 0, err
	}
	for _, audit := range []func(*engine.Tx, func(format string, args ...any)) error{
		meta.AuditAccounts, meta.AuditShares, meta.AuditParts, meta.AuditContents, meta.AuditUsage,
	} {
		if err := audit(t, report); err != nil {
			return nil, 0, err
		}
	}
	return findings, total, nil
}
