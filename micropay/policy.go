package micropay

import "time"

// Policy is what a receiver takes.
type Policy struct {
	Receiver      Address
	Asset         Address
	ModuleAddress Address
	ChainID       uint8
}

// Receive does all that can be asked of a micropayment without knowing its
// channel: it reads the base64, checks it against the policy at the time now,
// and verifies signer and signature, the costly part last. Without an error the
// sender has truly promised the receiver Amount in all, in this channel. Its
// errors are *Error.
func Receive(encoded string, p Policy, now time.Time) (*Micropayment, error) {
	m, err := ParseBase64(encoded)
	if err != nil {
		return nil, err
	}
	if err := m.Check(p, now); err != nil {
		return nil, err
	}
	if err := m.Verify(); err != nil {
		return nil, err
	}
	return m, nil
}

// Check asks whether the micropayment is one that the policy takes at the time
// now. As on the chain, it has expired from its expiration second on. Check
// does not look at signatures; see Verify. Its errors are *Error of
// ClassPolicy.
func (m *Micropayment) Check(p Policy, now time.Time) error {
	switch {
	case m.Receiver != p.Receiver:
		return refuse(ClassPolicy, ReasonReceiver, "it pays %v, not %v", m.Receiver, p.Receiver)
	case m.ModuleAddress != p.ModuleAddress:
		return refuse(ClassPolicy, ReasonModuleAddress, "the module is of %v, not %v", m.ModuleAddress, p.ModuleAddress)
	case m.ChainID != p.ChainID:
		return refuse(ClassPolicy, ReasonChain, "it is for chain %d, not %d", m.ChainID, p.ChainID)
	case m.Asset != p.Asset:
		return refuse(ClassPolicy, ReasonAsset, "it pays in %v, not %v", m.Asset, p.Asset)
	case now.Unix() < 0 || uint64(now.Unix()) >= m.Expiration:
		return refuse(ClassPolicy, ReasonExpired, "it expired at %d", m.Expiration)
	}
	return nil
}
