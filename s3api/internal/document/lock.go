package document

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The modes of a retention.
const (
	Governance = "GOVERNANCE"
	Compliance = "COMPLIANCE"
)

// ErrPeriod means that a default retention has a length that none can have
// (InvalidRetentionPeriod).
var ErrPeriod = errors.New("a default retention has 1 to 36500 days, or 1 to 100 years")

// day is a default retention's unit; a year has 365.
const day = 24 * time.Hour

// DecodeObjectLock reads a body with a bucket's default retention ("ObjectLockConfiguration",
// Amazon S3 API Reference): its mode and how long it is, or "" and 0 for none. The error wraps
// ErrMalformed or ErrPeriod. The caller bounds the body's size.
func DecodeObjectLock(body []byte) (mode string, period time.Duration, err error) {
	var sent struct {
		strict
		XMLName xml.Name `xml:"ObjectLockConfiguration"`
		Enabled []string `xml:"ObjectLockEnabled"`
		Rules   []struct {
			strict
			Defaults []struct {
				strict
				Mode, Days, Years []string
			} `xml:"DefaultRetention"`
		} `xml:"Rule"`
	}
	if err := decodeStrictly(body, &sent); err != nil {
		return "", 0, err
	}
	enabled, err := only("ObjectLockEnabled", sent.Enabled)
	switch {
	case err != nil:
		return "", 0, err
	case enabled != "Enabled" || len(sent.Rules) > 1 || len(sent.Rules) == 1 && len(sent.Rules[0].Defaults) != 1:
		return "", 0, fmt.Errorf("%w: ObjectLockEnabled must be Enabled, and there is at most one Rule, with a DefaultRetention", ErrMalformed)
	case len(sent.Rules) == 0:
		return "", 0, nil
	}
	rule := sent.Rules[0].Defaults[0]
	days, inDays, err := integer("Days", rule.Days)
	years, inYears, yearsErr := integer("Years", rule.Years)
	mode, modeErr := oneOf("Mode", rule.Mode, Governance, Compliance)
	switch err = errors.Join(err, yearsErr, modeErr); {
	case err != nil:
		return "", 0, err
	case mode == "" || inDays == inYears:
		return "", 0, fmt.Errorf("%w: a DefaultRetention has a Mode, and either Days or Years", ErrMalformed)
	case inDays && (days < 1 || days > 36500), inYears && (years < 1 || years > 100):
		return "", 0, ErrPeriod
	}
	return mode, time.Duration(days+365*years) * day, nil
}

// ObjectLock returns the document with a bucket's default retention, in days.
func ObjectLock(mode string, period time.Duration) any {
	inner := "<ObjectLockEnabled>Enabled</ObjectLockEnabled>"
	if mode != "" {
		inner += "<Rule><DefaultRetention><Mode>" + mode + "</Mode><Days>" + strconv.FormatInt(int64((period+day-1)/day), 10) + "</Days></DefaultRetention></Rule>"
	}
	return setting{XMLName: xml.Name{Space: namespace, Local: "ObjectLockConfiguration"}, Inner: inner}
}

// Retention is how long a version is locked ("ObjectLockRetention", Amazon S3 API Reference).
type Retention struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ Retention"`
	Mode    string   // Governance or Compliance
	Until   string   `xml:"RetainUntilDate"` // as FormatTime writes it
}

// DecodeRetention reads a body with a version's retention: its mode and its end, or "" and zero for
// none. The error wraps ErrMalformed. The caller bounds the body's size.
func DecodeRetention(body []byte) (mode string, until time.Time, err error) {
	var sent struct {
		strict
		XMLName xml.Name `xml:"Retention"`
		Mode    []string
		Until   []string `xml:"RetainUntilDate"`
	}
	if err := decodeStrictly(body, &sent); err != nil {
		return "", time.Time{}, err
	}
	mode, err = oneOf("Mode", sent.Mode, Governance, Compliance)
	until, untilErr := instant("RetainUntilDate", sent.Until)
	if err = errors.Join(err, untilErr); err == nil && (mode == "") != until.IsZero() {
		err = fmt.Errorf("%w: a Mode needs a RetainUntilDate, and the other way round", ErrMalformed)
	}
	if err != nil {
		return "", time.Time{}, err
	}
	return mode, until, nil
}

// DecodeLegalHold reads a body that sets or ends a version's legal hold. The error wraps
// ErrMalformed. The caller bounds the body's size.
func DecodeLegalHold(body []byte) (on bool, err error) {
	var sent struct {
		strict
		XMLName xml.Name `xml:"LegalHold"`
		Status  []string
	}
	if err := decodeStrictly(body, &sent); err != nil {
		return false, err
	}
	status, err := oneOf("Status", sent.Status, "ON", "OFF")
	if err == nil && status == "" {
		err = fmt.Errorf("%w: it must have a Status", ErrMalformed)
	}
	return status == "ON", err
}
