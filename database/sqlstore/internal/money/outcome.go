package money

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/ledger"
)

// An outcome is the recorded result of an idempotent call, as JSON with members that only
// this file defines. Processes of several versions may share a database, so members are
// added and never changed or removed, and an older version ignores those that it does not
// know. A change that an older version would misunderstand increments outcomeVersion.

// outcomeVersion is the greatest outcome version that this program reads. Version 1 is written as
// no version.
const outcomeVersion = 1

// outcome is a result's stored form. Its fields are the result's.
type outcome[T any] interface{ result() T }

func encodeOutcome[T any](o outcome[T]) ([]byte, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: outcome: %w", err)
	}
	return b, nil
}

func decodeOutcome[T any, O outcome[T]](b []byte) (none T, err error) {
	var o O
	var header struct {
		Version int `json:"version"`
	}
	if err := errors.Join(json.Unmarshal(b, &header), json.Unmarshal(b, &o)); err != nil {
		return none, fmt.Errorf("sqlstore: recorded outcome: %w", err)
	}
	if header.Version > outcomeVersion {
		return none, fmt.Errorf("sqlstore: recorded outcome: version %d, known up to %d", header.Version, outcomeVersion)
	}
	return o.result(), nil
}

// sessionOutcome is the outcome of CreateSession, UseSession and Buy.
type sessionOutcome struct {
	ID           string    `json:"id"`
	UserIdentity string    `json:"userIdentity,omitempty"`
	Channel      string    `json:"channel,omitempty"`
	Total        int64     `json:"total"`
	Left         int64     `json:"left"`
	Used         int64     `json:"used"`
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires"`
}

func outcomeOfSession(s ledger.Session) sessionOutcome { return sessionOutcome(s) }

func (o sessionOutcome) result() ledger.Session { return ledger.Session(o) }

// channelOutcome is the outcome of OpenChannel and AddDeposit.
type channelOutcome struct {
	ID               string    `json:"id"`
	PaymentChannelID int64     `json:"paymentChannelId"`
	Sender           string    `json:"sender,omitempty"`
	Receiver         string    `json:"receiver"`
	Asset            string    `json:"asset"`
	Deposit          int64     `json:"deposit"`
	Owner            string    `json:"owner,omitempty"`
	Accepted         int64     `json:"accepted"`
	Sequence         int64     `json:"sequence"`
	Proof            []byte    `json:"proof,omitempty"`
	Credit           int64     `json:"credit"`
	Settled          int64     `json:"settled"`
	Closed           time.Time `json:"closed,omitzero"`
	Submitted        int64     `json:"submitted,omitempty"`
	Stopped          string    `json:"stopped,omitempty"`
	Created          time.Time `json:"created"`
	Expires          time.Time `json:"expires"`
	Withdrawn        int64     `json:"withdrawn,omitempty"`
	NextSequence     int64     `json:"nextSequence,omitempty"`
	ChainTime        time.Time `json:"ledger,omitzero"`
	Read             time.Time `json:"read,omitzero"`
	ChainCreated     time.Time `json:"chainCreated,omitzero"`
	Collected        int64     `json:"collected,omitempty"`
	Elsewhere        int64     `json:"elsewhere,omitempty"`
	Form             string    `json:"form,omitempty"`
	Expired          int64     `json:"expired,omitempty"`
}

func outcomeOfChannel(c ledger.Channel) channelOutcome { return channelOutcome(c) }

func (o channelOutcome) result() ledger.Channel { return ledger.Channel(o) }
