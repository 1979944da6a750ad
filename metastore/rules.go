package metastore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"sluice/access/actions"
)

// Bounds of an account's rules.
const (
	MaxRules      = 100
	MaxRulesBytes = 64 << 10 // of all rules in JSON
	MaxRuleID     = 255      // characters, as in Amazon S3
	MaxRuleDays   = 36_500
	MaxRuleTags   = 10 // as many as a blob can have
)

// ErrRules means that an account cannot have such rules. It is wrapped with the reason.
var ErrRules = errors.New("the rules are not valid")

// Rule removes blobs, versions and uploads with a prefix, as the rules of a lifecycle configuration
// in Amazon S3 do ("Lifecycle configuration elements", Amazon S3 User Guide). The zero value of a
// member is none. Its JSON is stored.
type Rule struct {
	ID       string            `json:"id"`
	Disabled bool              `json:"disabled,omitempty"`
	Prefix   string            `json:"prefix,omitempty"`  // that names have
	Tags     map[string]string `json:"tags,omitempty"`    // all of them
	AtLeast  int64             `json:"atLeast,omitempty"` // bytes that a blob has
	Below    int64             `json:"below,omitempty"`   // a blob has fewer bytes

	// ExpireDays and ExpireOn, a midnight in UTC, remove current blobs as a deletion does, and also
	// marks, if their names have nothing else.
	ExpireDays int       `json:"expireDays,omitempty"` // after the blob was modified
	ExpireOn   time.Time `json:"expireOn,omitzero"`
	// DropDays and DropBeyond remove the versions for which both hold that are not current.
	DropDays   int  `json:"dropDays,omitempty"`   // after they ceased to be current
	DropBeyond int  `json:"dropBeyond,omitempty"` // at least so many newer ones are not current
	AbortDays  int  `json:"abortDays,omitempty"`  // after an upload began; aborts it
	LoneMarks  bool `json:"loneMarks,omitempty"`  // removes them at once
	OldForm    bool `json:"oldForm,omitempty"`    // S3 writes Prefix without a Filter
}

// Newer counts the versions of a name that are newer than another one, and not current. A mark is
// not a version here, as in Keeping.Most.
type Newer struct{ Versions, Marks int }

// Selects reports whether a rule is about a blob with this name, size and metadata.
func (r *Rule) Selects(b *Blob) bool {
	return !r.Disabled && strings.HasPrefix(b.Name, r.Prefix) && b.Size >= r.AtLeast && (r.Below == 0 || b.Size < r.Below) && r.tagged(b.Metadata)
}

// TagsProperty begins the line with tags in a blob's metadata: keys and values in turns, with "&"
// between them, which is in no tag.
const TagsProperty = "X-Amz-Tagging:"

// TagsOf returns the tags in a blob's metadata, keys and values in turns.
func TagsOf(metadata string) []string {
	for line := range strings.Lines(metadata) {
		if tags, ok := strings.CutPrefix(line, TagsProperty); ok {
			return strings.Split(strings.TrimSuffix(tags, "\n"), "&")
		}
	}
	return nil
}

// tagged reports whether a blob with this metadata has the rule's tags.
func (r *Rule) tagged(metadata string) bool {
	if len(r.Tags) == 0 {
		return true
	}
	found := 0
	for pair := range slices.Chunk(TagsOf(metadata), 2) {
		if value, ok := r.Tags[pair[0]]; ok && len(pair) == 2 && value == pair[1] {
			found++
		}
	}
	return found == len(r.Tags)
}

// afterDays returns the time that is a number of days later, rounded up to the next midnight in
// UTC: also from a midnight.
func afterDays(t time.Time, days int) time.Time { return NextMidnight(t).AddDate(0, 0, days) }

// NextMidnight returns the first midnight in UTC after a time.
func NextMidnight(t time.Time) time.Time {
	const day = 24 * time.Hour
	return t.UTC().Truncate(day).Add(day)
}

// Expires returns when a rule removes a current blob; zero: never. It is the same for a lone mark.
func (r *Rule) Expires(b *Blob) time.Time {
	switch {
	case !r.Selects(b):
		return time.Time{}
	case b.Mark && r.LoneMarks:
		return b.Modified
	case r.ExpireDays > 0:
		return afterDays(b.Modified, r.ExpireDays)
	}
	return r.ExpireOn
}

// Drops returns when a rule removes a version or mark that ceased to be current at a time; zero:
// never, unless newer ones are added.
func (r *Rule) Drops(b *Blob, since time.Time, newer Newer) time.Time {
	beyond := newer.Versions >= r.DropBeyond || b.Mark && newer.Marks >= r.DropBeyond
	switch {
	case r.DropDays == 0 && r.DropBeyond == 0, !beyond, !r.Selects(b):
		return time.Time{}
	case r.DropDays == 0:
		return since
	}
	return afterDays(since, r.DropDays)
}

// Aborts returns when a rule aborts an upload; zero: never.
func (r *Rule) Aborts(u *Upload) time.Time {
	if r.AbortDays == 0 || r.Disabled || !strings.HasPrefix(u.Name, r.Prefix) {
		return time.Time{}
	}
	return afterDays(u.Created, r.AbortDays)
}

// FirstRule returns the rule for which at returns the earliest time, and that time; nil if
// all are zero. Of several rules with that time it is the first: where rules overlap in Amazon S3,
// the shorter expiration holds.
func FirstRule(rules []Rule, at func(*Rule) time.Time) (first *Rule, due time.Time) {
	for i := range rules {
		if t := at(&rules[i]); !t.IsZero() && (first == nil || t.Before(due)) {
			first, due = &rules[i], t
		}
	}
	return first, due
}

// CheckRules returns an ErrRules unless an account can have these rules.
func CheckRules(rules []Rule) error {
	if len(rules) > MaxRules {
		return fmt.Errorf("%w: there are %d, and an account has at most %d", ErrRules, len(rules), MaxRules)
	}
	ids := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		reason := r.fault()
		if ids[r.ID] {
			reason = "another rule has the same id"
		}
		if reason != "" {
			return fmt.Errorf("%w: rule %d, %.40q: %s", ErrRules, i+1, r.ID, reason)
		}
		ids[r.ID] = true
	}
	text, err := json.Marshal(rules)
	if err == nil && len(text) > MaxRulesBytes {
		err = fmt.Errorf("%w: in JSON they have %d bytes, more than %d", ErrRules, len(text), MaxRulesBytes)
	}
	return err
}

// fault returns why no account can have the rule, or "".
func (r *Rule) fault() string {
	text := func(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }
	days := func(n int) bool { return n >= 0 && n <= MaxRuleDays }
	sized := r.AtLeast != 0 || r.Below != 0
	expires := r.ExpireDays != 0 || !r.ExpireOn.IsZero()
	for key, value := range r.Tags {
		if !text(key+value) || key == "" || strings.Contains(key+value, "&") {
			return "no blob has such a tag"
		}
	}
	switch {
	case r.ID == "" || utf8.RuneCountInString(r.ID) > MaxRuleID || !text(r.ID):
		return fmt.Sprintf("an id has 1 to %d characters, none of them a control character", MaxRuleID)
	case len(r.Prefix) > 1024 || !text(r.Prefix):
		return "a prefix has at most 1,024 bytes of UTF-8, without control characters"
	case len(r.Tags) > MaxRuleTags:
		return fmt.Sprintf("a blob has at most %d tags", MaxRuleTags)
	case r.AtLeast < 0, r.Below < 0, r.Below > 0 && r.AtLeast >= r.Below:
		return "no blob has at least atLeast and below below bytes"
	case !days(r.ExpireDays), !days(r.DropDays), !days(r.AbortDays):
		return fmt.Sprintf("days are 1 to %d", MaxRuleDays)
	case r.DropBeyond < 0, r.DropBeyond > MaxKept:
		return fmt.Sprintf("dropBeyond is 1 to %d", MaxKept)
	case !r.ExpireOn.IsZero() && !r.ExpireOn.Equal(r.ExpireOn.Truncate(24*time.Hour)):
		return "expireOn is a midnight in UTC"
	case !r.ExpireOn.IsZero() && r.ExpireDays != 0:
		return "it has expireDays or expireOn"
	case r.LoneMarks && (expires || sized || len(r.Tags) > 0):
		return "loneMarks go without expireDays, expireOn, tags and sizes"
	case r.AbortDays != 0 && (sized || len(r.Tags) > 0):
		return "an upload has neither tags nor a size"
	case !expires && r.DropDays == 0 && r.DropBeyond == 0 && r.AbortDays == 0 && !r.LoneMarks:
		return "it removes nothing"
	}
	return ""
}

// RuleCounts are things that a rule has removed or would remove.
type RuleCounts struct {
	Blobs    int64 `json:"blobs,omitempty"` // current ones; expired, not necessarily freed
	Versions int64 `json:"versions,omitempty"`
	Marks    int64 `json:"marks,omitempty"`
	Uploads  int64 `json:"uploads,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"` // of all these
}

// RuleRun is a run of an account's rules over all that it has.
type RuleRun struct {
	Began  time.Time             `json:"began"`
	Ended  time.Time             `json:"ended,omitzero"` // zero: not yet
	Looked int64                 `json:"looked"`         // how many blobs, versions, marks and uploads were looked at
	Taken  map[string]RuleCounts `json:"taken,omitempty"`
}

// AccountRules are an account's rules, and how far they were applied.
type AccountRules struct {
	Account string
	Rules   []Rule

	// Set by the store.

	Changed time.Time // zero: the account has no rules
	Due     time.Time // when the next run begins; the one in progress, if there is one
	Running *RuleRun  // nil: none is in progress
	Last    *RuleRun  // the last one that ended; nil: none has
}

// Rules removes blobs by rules that accounts have. Rules are about the account's markers, too, and
// not about names that begin with U+0000.
//
// An account's rules are applied to all that it has soon after they were changed, and then each day
// after midnight in UTC. A rule removes a blob as RemoveBlob does, by "rule:" and the rule's id. It
// removes versions for good, except those with a lock. Where several rules remove the same thing,
// the one that is due first does, see FirstRule.
type Rules interface {
	// Rules returns an account's rules, zero if it has none.
	Rules(ctx context.Context, account string) (AccountRules, error)

	// SetRules changes an account's rules and returns them as stored. It calls change within the
	// transaction, possibly several times, and records the act that it returns, which may be nil.
	// With an error of change nothing is changed, and SetRules returns it. The rules must pass
	// CheckRules. If they change, their run begins anew.
	SetRules(ctx context.Context, account string, change func(*[]Rule) (*actions.Act, error)) (AccountRules, error)

	// ListRules returns up to limit accounts with rules, sorted, beginning after after.
	ListRules(ctx context.Context, after string, limit int) ([]AccountRules, error)

	// ApplyRules looks at up to limit things in the account with the rules that are due first, and
	// removes those that its rules remove now, in one transaction with the run's progress. It
	// returns how many it has removed, and whether it has to be called again. It returns ErrClock,
	// without effect, while DeletionErr is not nil, and does nothing while its task is paused.
	ApplyRules(ctx context.Context, limit int) (removed int64, more bool, err error)

	// CountRules counts removals that rules would make now: it looks at up to limit things of an
	// account behind after, a next of an earlier call with the same rules, or "". next is empty at
	// the end. It returns an ErrRules if after is none.
	CountRules(ctx context.Context, account string, rules []Rule, after string, limit int) (run RuleRun, next string, err error)
}
