package history

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"sluice/bytestore"
	"sluice/database"
)

// CandidateProperty is the property that names a database while it wants to make a record: the
// record's number and a random name. A copy that was made before does not have it, and chooses
// another name.
const CandidateProperty = "candidate"

// nameOf returns the database's name as a candidate for a record, and chooses it if there is none.
// All its nodes have the same.
func nameOf(ctx context.Context, props database.Properties, number int64) (string, error) {
	begin := fmt.Sprintf("%d ", number)
	for {
		text, err := props.Property(ctx, CandidateProperty)
		if name, ours := strings.CutPrefix(text, begin); ours {
			return name, nil
		}
		next := begin + strings.ToLower(rand.Text()[:database.OwnerLen])
		switch {
		case err == nil:
			err = props.ReplaceProperty(ctx, CandidateProperty, text, next)
		case errors.Is(err, database.ErrNotFound):
			err = props.SetProperty(ctx, CandidateProperty, next)
		}
		// After these errors another node was first.
		if err != nil && !errors.Is(err, database.ErrNotFound) && !errors.Is(err, database.ErrExists) {
			return "", err
		}
	}
}

// hasRival reports whether another database is a candidate for the same record.
func hasRival(ctx context.Context, bytes bytestore.Store, number int64, name string) (rival bool, err error) {
	own := candidateName(number, name)
	err = list(ctx, bytes, claimName(number), func(o bytestore.Object, n int64, rest string) {
		rival = rival || n == number && strings.HasPrefix(rest, "-claim-") && o.Name != own
	})
	return rival, err
}
