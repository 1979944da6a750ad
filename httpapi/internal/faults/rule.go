// Package faults makes a local instance fail on demand, so that users can test how their programs
// handle failures. A fault is a delay, an error, or a response that is cut, slow or lost: none
// changes stored data, apart from the request's own effect.
package faults

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/units"
)

// Kind is a kind of fault.
type Kind string

// The kinds.
const (
	Delay          Kind = "delay"           // wait before the request is processed
	Status         Kind = "status"          // an error response, without processing the request
	Cut            Kind = "cut"             // the connection is closed after some bytes of the response
	DropReply      Kind = "drop-reply"      // the request is processed, and the connection is closed without a response
	Slow           Kind = "slow"            // the response's body is sent slowly
	ExpiredSession Kind = "expired-session" // the response to a request that names an expired session
	FullDisk       Kind = "full-disk"       // the response to a request that stores something on a full disk
)

// Fault is a fault that happens to a request.
type Fault struct {
	Kind   Kind          // "": nothing
	Delay  time.Duration // of Delay: 1 ms to MaxDelay
	Status int           // of Status: 400 to 599
	Bytes  int64         // of Cut: how many bytes are sent, at least 0; of Slow: bytes a second, at least 1
}

// MaxDelay is the longest delay.
const MaxDelay = 10 * time.Minute

// String returns the fault as Parse reads it.
func (f Fault) String() string {
	switch f.Kind {
	case Delay:
		return "delay " + f.Delay.String()
	case Status:
		return "status " + strconv.Itoa(f.Status)
	case Cut:
		return "cut " + units.FormatSize(f.Bytes)
	case Slow:
		return "slow " + units.FormatSize(f.Bytes)
	default:
		return string(f.Kind)
	}
}

// The operations of requests, as rules name them.
const (
	Accounts = "accounts" // the list of accounts
	Blob     = "blob"     // one blob
	Changes  = "changes"  // of blobs
	Channel  = "channel"  // channels, and one channel
	Complete = "complete" // completing an upload
	Info     = "info"     // the service's description and figures
	List     = "list"     // the list of blobs
	Part     = "part"     // an upload's part
	Session  = "session"  // sessions, and one session
	Upload   = "upload"   // uploads, and one upload
	Use      = "use"      // using a session
)

var (
	operations = []string{Accounts, Blob, Changes, Channel, Complete, Info, List, Part, Session, Upload, Use}
	methods    = []string{"GET", "HEAD", "PUT", "POST", "DELETE"}
	// storing are the operations that are refused on a full disk, if their method is PUT or POST.
	storing = []string{Blob, Channel, Complete, Part, Session, Upload}
)

// Rule selects requests for a fault.
type Rule struct {
	Method    string // "": any
	Operation string // "": any
	Share     int64  // of these requests, in parts of Whole; Whole: all
	First     int64  // only so many of these requests; 0: no limit. Share is Whole then
	Fault     Fault
}

// Whole is the Share of all requests. A share has at most four decimals, in percent.
const Whole = 100_0000

// String returns the rule as Parse reads it, in its shortest form.
func (r Rule) String() string {
	var words []string
	if r.Method != "" {
		words = append(words, r.Method)
	}
	if r.Operation != "" {
		words = append(words, r.Operation)
	}
	switch {
	case r.First > 0:
		words = append(words, "first", strconv.FormatInt(r.First, 10))
	case r.Share != Whole:
		percent := fmt.Sprintf("%d.%04d", r.Share/1_0000, r.Share%1_0000)
		words = append(words, strings.TrimRight(strings.TrimRight(percent, "0"), ".")+"%")
	}
	if len(words) == 0 {
		return r.Fault.String()
	}
	return strings.Join(words, " ") + ": " + r.Fault.String()
}

// Request has the parts of a request that rules consider.
type Request struct {
	Method    string
	Operation string
	Session   bool // it names a session that pays for it
}

// matches reports whether the rule is for a request, and whether its fault can happen to it.
func (r *Rule) matches(q Request) bool {
	return (r.Method == "" || r.Method == q.Method) && (r.Operation == "" || r.Operation == q.Operation) && r.Fault.possible(q)
}

// possible reports whether the fault can happen to a request: for the faults that are errors in the
// service, whether it has such errors.
func (f Fault) possible(q Request) bool {
	switch f.Kind {
	case FullDisk:
		return (q.Method == "PUT" || q.Method == "POST") && slices.Contains(storing, q.Operation)
	case ExpiredSession:
		return q.Operation == Use || q.Operation == Blob && q.Session
	default:
		return true
	}
}

// maxRule is a rule's maximum length, in bytes.
const maxRule = 200

// Parse parses a rule: [METHOD] [OPERATION] [SHARE% | first N]: FAULT, or FAULT alone for all
// requests. Errors name the allowed values.
func Parse(text string) (Rule, error) {
	if len(text) > maxRule {
		return Rule{}, fmt.Errorf("a rule has at most %d characters", maxRule)
	}
	selection, fault, found := strings.Cut(text, ":")
	if !found {
		selection, fault = "", text
	}
	r, err := parseSelection(strings.Fields(selection))
	if err != nil {
		return Rule{}, err
	}
	if r.Fault, err = parseFault(strings.Fields(fault)); err != nil {
		return Rule{}, err
	}
	return r, r.check()
}

// check returns an error if the rule can never apply.
func (r *Rule) check() error {
	for _, method := range methods {
		for _, operation := range operations {
			if r.matches(Request{Method: method, Operation: operation, Session: true}) {
				return nil
			}
		}
	}
	if r.Fault.Kind == FullDisk {
		return fmt.Errorf("full-disk is possible for PUT and POST of %s only", list(storing))
	}
	return fmt.Errorf("%s is possible for use and blob only", r.Fault.Kind)
}

func parseSelection(words []string) (Rule, error) {
	r := Rule{Share: Whole}
	next := func() string {
		if len(words) == 0 {
			return ""
		}
		return words[0]
	}
	if slices.Contains(methods, next()) {
		r.Method, words = words[0], words[1:]
	}
	if slices.Contains(operations, next()) {
		r.Operation, words = words[0], words[1:]
	}
	var err error
	switch {
	case strings.HasSuffix(next(), "%"):
		r.Share, err = parseShare(words[0])
		words = words[1:]
	case next() == "first" && len(words) > 1:
		r.First, err = strconv.ParseInt(words[1], 10, 64)
		if err != nil || r.First < 1 || words[1] != strconv.FormatInt(r.First, 10) {
			err = fmt.Errorf("first %s: want a whole number of at least 1", clip(words[1]))
		}
		words = words[2:]
	}
	if err == nil && len(words) > 0 {
		err = fmt.Errorf("want [METHOD] [OPERATION] [SHARE%% | first N] before the colon, not %s: methods are %s, and operations %s",
			clip(words[0]), list(methods), list(operations))
	}
	return r, err
}

// parseShare parses a percentage with at most four decimals.
func parseShare(text string) (int64, error) {
	whole, decimals, _ := strings.Cut(strings.TrimSuffix(text, "%"), ".")
	digits := whole + decimals + strings.Repeat("0", max(0, 4-len(decimals)))
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || whole == "" || len(decimals) > 4 || n < 1 || n > Whole {
		return 0, fmt.Errorf("%s: want a share from 0.0001%% to 100%%, with at most four decimals", clip(text))
	}
	return int64(n), nil
}

func parseFault(words []string) (Fault, error) {
	if len(words) == 0 {
		return Fault{}, errors.New("the fault is missing: " + wantFault)
	}
	f, arguments := Fault{Kind: Kind(words[0])}, words[1:]
	argument := strings.Join(arguments, " ")
	switch f.Kind {
	case Delay:
		d, err := units.ParseDuration(argument)
		if err != nil || d < time.Millisecond || d > MaxDelay {
			return f, fmt.Errorf("delay %s: want a duration from 1ms to 10m, such as 500ms", clip(argument))
		}
		f.Delay = d
	case Status:
		n, err := strconv.Atoi(argument)
		if err != nil || n < 400 || n > 599 || len(argument) != 3 {
			return f, fmt.Errorf("status %s: want a status from 400 to 599", clip(argument))
		}
		f.Status = n
	case Cut:
		n, err := units.ParseSize(argument)
		if err != nil || n < 0 {
			return f, fmt.Errorf("cut %s: want a number of bytes, such as 0 or 64KiB", clip(argument))
		}
		f.Bytes = n
	case Slow:
		n, err := units.ParseSize(argument)
		if err != nil || n < 1 || n > 1<<30 {
			return f, fmt.Errorf("slow %s: want bytes a second, from 1 to 1GiB, such as 10KiB", clip(argument))
		}
		f.Bytes = n
	case DropReply, ExpiredSession, FullDisk:
		if argument != "" {
			return f, fmt.Errorf("%s has no value, but got %s", f.Kind, clip(argument))
		}
	default:
		return f, fmt.Errorf("there is no fault %s: %s", clip(words[0]), wantFault)
	}
	return f, nil
}

const wantFault = "want delay DURATION, status CODE, cut BYTES, drop-reply, slow BYTES, expired-session or full-disk"

// list returns words as an enumeration.
func list(words []string) string {
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// clip returns a text for an error, quoted and not too long.
func clip(text string) string { return fmt.Sprintf("%.40q", text) }
