package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sluice/bytestore"
)

// EpochProperty is the property that holds a database's epoch: its number, and a nonce, because
// another database may have an epoch with the same number.
const EpochProperty = "epoch"

// epoch is an epoch's number and a nonce that identifies its maker.
type epoch struct {
	number uint64 // from 1
	nonce  string // of instanceLen characters
}

func newEpoch(number uint64) epoch {
	return epoch{number, newID()}
}

func (e epoch) String() string { return fmt.Sprintf("%016x %s", e.number, e.nonce) }

// parseEpoch parses a property's value.
func parseEpoch(value string) (epoch, error) {
	number, nonce, _ := strings.Cut(value, " ")
	n, err := strconv.ParseUint(number, 16, 64)
	if err != nil || n == 0 || len(nonce) != instanceLen {
		return epoch{}, fmt.Errorf("the property is %q, which is not an epoch", value)
	}
	return epoch{n, nonce}, nil
}

// Names of a Fence's objects. The claims to an epoch sort before the epoch.
const epochPrefix = "sluice-epoch-"

func epochName(number uint64) bytestore.Name {
	return bytestore.Name(fmt.Sprintf("%s%016x-owner", epochPrefix, number))
}

func claimName(number uint64) bytestore.Name {
	return bytestore.Name(fmt.Sprintf("%s%016x-claim", epochPrefix, number))
}

// epochOfName returns the number of an object's epoch. It returns false for other objects.
func epochOfName(name bytestore.Name) (number uint64, ok bool) {
	rest, ok := strings.CutPrefix(string(name), epochPrefix)
	digits, _, _ := strings.Cut(rest, "-")
	number, err := strconv.ParseUint(digits, 16, 64)
	return number, ok && err == nil
}

// An epoch's object holds its nonce and then a count of commits, in countLen hex digits. Versions
// without such counts read and write the nonce alone.
const countLen = 16

func epochObject(e epoch, commits int64) string {
	return fmt.Sprintf("%s%0*x", e.nonce, countLen, commits)
}

// readCount returns the count of commits in an epoch's object, or false if it has none.
func readCount(ctx context.Context, bytes bytestore.Store, number uint64) (commits int64, known bool, err error) {
	r, err := bytes.Open(ctx, epochName(number), instanceLen, countLen)
	if errors.Is(err, bytestore.ErrTruncated) || errors.Is(err, bytestore.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	digits := make([]byte, countLen)
	if _, err := bytestore.ReadFull(r, digits); err != nil {
		return 0, false, err
	}
	commits, err = strconv.ParseInt(string(digits), 16, 64)
	return commits, err == nil, err
}
