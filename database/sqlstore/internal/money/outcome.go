package money

import (
	"encoding/json"
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

// outcome is a result's stored form.
type outcome[T any] interface {
	version() int
	result() T
}

func encodeOutcome[T any](o outcome[T]) ([]byte, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("sqlstore: outcome: %w", err)
	}
	return b, nil
}

func decodeOutcome[T any, O outcome[T]](b []byte) (T, error) {
	var o O
	var none T
	if err := json.Unmarshal(b, &o); err != nil {
		return none, fmt.Errorf("sqlstore: recorded outcome: %w", err)
	}
	if v := o.version(); v > outcomeVersion {
		return none, fmt.Errorf("sqlstore: recorded outcome: version %d, known up to %d", v, outcomeVersion)
	}
	return o.result(), nil
}

type outcomeHeader struct {
	Version int `json:"version,omitempty"`
}

func (h outcomeHeader) version() int { return h.Version }

// sessionOutcome is the outcome of CreateSession, UseSession and Buy.
type sessionOutcome struct {
	outcomeHeader
	ID           string    `json:"id"`
	UserIdentity string    `json:"userIdentity,omitempty"`
	Channel      string    `json:"channel,omitempty"`
	Total        int64     `json:"total"`
	Left         int64     `json:"left"`
	Used         int64     `json:"used"`
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires"`
}

func outcomeOfSession(s ledger.Session) sessionOutcome {
	return sessionOutcome{
		ID: s.ID, UserIdentity: s.UserIdentity, Channel: s.Channel, Total: s.Total, Left: s.Left, Used: s.Used,
		Created: s.Created, Expires: s.Expires,
	}
}

func (o sessionOutcome) result() ledger.Session {
	return ledger.Session{
		ID: o.ID, UserIdentity: o.UserIdentity, Channel: o.Channel, Total: o.Total, Left: o.Left, Used: o.Used,
		Created: o.Created, Expires: o.Expires,
	}
}

// channelOutcome is the outcome of OpenChannel and AddDeposit.
type channelOutcome struct {
	outcomeHeader
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
	Created          time.Time `json:"created"`
	Expires          time.Time `json:"expires"`
	Submitted        int64     `json:"submitted,omitempty"`
	Stopped          string    `json:"stopped,omitempty"`
	Withdrawn        int64     `json:"withdrawn,omitempty"`
	NextSequence     int64     `json:"nextSequence,omitempty"`
	Ledger           time.Time `json:"ledger,omitzero"`
	Read             time.Time `json:"read,omitzero"`
	ChainCreated     time.Time `json:"chainCreated,omitzero"`
	Collected        int64     `json:"collected,omitempty"`
	Elsewhere        int64     `json:"elsewhere,omitempty"`
	Form             string    `json:"form,omitempty"`
	Expired          int64     `json:"expired,omitempty"`
}

func outcomeOfChannel(c ledger.Channel) channelOutcome {
	return channelOutcome{
		ID: c.ID, PaymentChannelID: c.PaymentChannelID, Sender: c.Sender, Receiver: c.Receiver, Asset: c.Asset,
		Deposit: c.Deposit, Owner: c.Owner, Accepted: c.Accepted, Sequence: c.Sequence, Proof: c.Proof,
		Credit: c.Credit, Settled: c.Settled, Closed: c.Closed, Created: c.Created, Expires: c.Expires,
		Submitted: c.Submitted, Stopped: c.Stopped, Withdrawn: c.Withdrawn, NextSequence: c.NextSequence, Ledger: c.ChainTime, Read: c.Read,
		ChainCreated: c.ChainCreated, Collected: c.Collected, Elsewhere: c.Elsewhere, Form: c.Form, Expired: c.Expired,
	}
}

func (o channelOutcome) result() ledger.Channel {
	return ledger.Channel{
		ID: o.ID, PaymentChannelID: o.PaymentChannelID, Sender: o.Sender, Receiver: o.Receiver, Asset: o.Asset,
		Deposit: o.Deposit, Owner: o.Owner, Accepted: o.Accepted, Sequence: o.Sequence, Proof: o.Proof,
		Credit: o.Credit, Settled: o.Settled, Closed: o.Closed, Created: o.Created, Expires: o.Expires,
		Submitted: o.Submitted, Stopped: o.Stopped, Withdrawn: o.Withdrawn, NextSequence: o.NextSequence, ChainTime: o.Ledger, Read: o.Read,
		ChainCreated: o.ChainCreated, Collected: o.Collected, Elsewhere: o.Elsewhere, Form: o.Form, Expired: o.Expired,
	}
}
