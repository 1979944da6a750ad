package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice/bytestore"
	"sluice/database"
)

// CandidateProperty is the property that names a database while it wants to make an epoch. It has
// the epoch's number and a nonce. A copy that was made before does not have it, and chooses another
// nonce.
const CandidateProperty = "candidate"

// candidate is a database that wants to make an epoch. Its nodes put an object with all of it in
// its name, so that one listing shows the candidates.
type candidate struct {
	number  uint64 // of the epoch
	name    string // of the database: the beginning of the nonce
	commits int64  // of the database
}

// nameLen is the length of a candidate's name, which is as long as bytestore.Name permits.
const nameLen = 12

func (c candidate) object() bytestore.Name {
	return bytestore.Name(fmt.Sprintf("%s-%s-%s", claimName(c.number), c.name, strconv.FormatInt(c.commits, 36)))
}

// parseCandidate returns the candidate that an object with this name shows. It returns false for
// other objects.
func parseCandidate(object bytestore.Name) (candidate, bool) {
	number, ok := epochOfName(object)
	if !ok {
		return candidate{}, false
	}
	rest, ok := strings.CutPrefix(string(object), string(claimName(number))+"-")
	if !ok {
		return candidate{}, false
	}
	name, digits, _ := strings.Cut(rest, "-")
	commits, err := strconv.ParseInt(digits, 36, 64)
	return candidate{number, name, commits}, len(name) == nameLen && err == nil && commits >= 0
}

// nameOf returns the database's name as a candidate for an epoch, and records it if there is none.
// All its nodes have the same.
func nameOf(ctx context.Context, props database.Properties, number uint64) (string, error) {
	for {
		text, err := props.Property(ctx, CandidateProperty)
		absent := errors.Is(err, database.ErrNotFound)
		if err != nil && !absent {
			return "", err
		}
		next := newEpoch(number)
		if !absent {
			known, err := parseEpoch(text)
			if err != nil {
				return "", fmt.Errorf("%s: %w", CandidateProperty, err)
			}
			if known.number == number {
				return known.nonce[:nameLen], nil
			}
			err = props.ReplaceProperty(ctx, CandidateProperty, text, next.String())
			if err != nil && !errors.Is(err, database.ErrNotFound) {
				return "", err
			}
			continue // another node may have been first
		}
		if err := props.SetProperty(ctx, CandidateProperty, next.String()); err != nil && !errors.Is(err, database.ErrExists) {
			return "", err
		}
	}
}

// rival returns the candidate of another database, for the same epoch, with the most commits. It
// returns false if there is none.
func (c candidate) rival(ctx context.Context, bytes bytestore.Store) (rival candidate, found bool, err error) {
	end := errors.New("no more candidates")
	err = bytes.List(ctx, claimName(c.number), func(o bytestore.Object) error {
		other, ok := parseCandidate(o.Name)
		if !ok || other.number != c.number {
			return end
		}
		if other.name != c.name && (!found || other.commits > rival.commits) {
			rival, found = other, true
		}
		return nil
	})
	if errors.Is(err, end) {
		err = nil
	}
	return rival, found, err
}
