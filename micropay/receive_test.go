package micropay

import "time"

// receive parses, checks and verifies a micropayment, as a receiver does.
func receive(encoded string, p Policy, now time.Time) (*Micropayment, error) {
	m, err := ParseBase64(encoded)
	if err == nil {
		err = m.Check(p, now)
	}
	if err == nil {
		err = m.Verify()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}
