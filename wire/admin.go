package wire

import (
	"encoding/json"
	"time"
)

// Grant allows the operations of its scopes on the blobs of its accounts with names that begin with
// its prefix.
type Grant struct {
	Scopes   []string `json:"scopes"`
	Accounts []string `json:"accounts,omitzero"` // absent: all
	Prefix   string   `json:"prefix,omitempty"`
}

// CreateKey is the request for an API key.
type CreateKey struct {
	Label   string           `json:"label"`
	Grants  []Grant          `json:"grants"`
	Group   string           `json:"group"`   // "": a group of its own, or a restricted administrator's
	Expires string           `json:"expires"` // RFC 3339; "": never
	Limits  map[string]int64 `json:"limits"`  // the group's, by member; absent: the service's default; -1: unlimited
	S3      bool             `json:"s3"`      // the key gets an S3 secret
}

// UpdateKey is the request that changes a key. What is absent stays as it is.
type UpdateKey struct {
	Label          *string  `json:"label,omitempty"`
	Grants         *[]Grant `json:"grants,omitempty"`
	Expires        *string  `json:"expires,omitempty"` // RFC 3339; "": never
	NewSecret      bool     `json:"newSecret,omitempty"`
	NewS3Secret    bool     `json:"newS3Secret,omitempty"`
	RemoveS3Secret bool     `json:"removeS3Secret,omitempty"`
}

// A key's states.
const (
	KeyActive  = "active"
	KeyExpired = "expired"
	KeyRevoked = "revoked"
)

// Key is an API key.
type Key struct {
	ID      string           `json:"id"`
	State   string           `json:"state"`
	Label   string           `json:"label,omitempty"`
	Grants  []Grant          `json:"grants"`
	Group   string           `json:"group"`
	Limits  map[string]int64 `json:"limits"` // the group's, as in CreateKey
	S3      bool             `json:"s3"`     // it has an S3 secret
	Created time.Time        `json:"created"`
	Expires time.Time        `json:"expires,omitzero"`
	Revoked time.Time        `json:"revoked,omitzero"`
	ETag    string           `json:"etag,omitempty"`
}

// IssuedKey is a key with the secrets that it was given, which cannot be shown again.
type IssuedKey struct {
	Key

	Secret   string `json:"secret,omitempty"` // the whole credential
	S3Secret string `json:"s3Secret,omitempty"`
	// Remedy is how to replace the secrets, for the response to a repeated creation, which has
	// none.
	Remedy string `json:"remedy,omitempty"`
}

// KeyPage is a page in the list of keys.
type KeyPage struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next,omitempty"`
}

// Group is a group of keys, with its limits and quota usage, by member.
type Group struct {
	Group     string           `json:"group"`
	Limits    map[string]int64 `json:"limits"`    // as in CreateKey
	Effective map[string]int64 `json:"effective"` // the limits in force; -1: unlimited
	Used      map[string]int64 `json:"used"`      // of each quota
	ETag      string           `json:"etag"`
}

// UpdateGroup is the request that changes a group's limits. Limits that are absent stay as they
// are, and 0 is the service's default.
type UpdateGroup struct {
	Limits map[string]int64 `json:"limits"`
}

// GroupPage is a page in the list of groups.
type GroupPage struct {
	Groups []Group `json:"groups"`
	Next   string  `json:"next,omitempty"`
}

// SetAlias is the request that makes a bucket's name an alias for an account.
type SetAlias struct {
	Account string `json:"account"`
}

// Alias is a bucket's name for an account's blobs.
type Alias struct {
	Bucket  string `json:"bucket"`
	Account string `json:"account"`
}

// AliasPage is a page in the list of aliases.
type AliasPage struct {
	Aliases []Alias `json:"aliases"`
	Next    string  `json:"next,omitempty"`
}

// Damage is an extent with damaged or missing bytes.
type Damage struct {
	Content string        `json:"content"`
	Part    int           `json:"part"`
	Offset  int64         `json:"offset"`           // in the part
	Size    int64         `json:"size"`             // the extent's bytes
	Object  string        `json:"object,omitempty"` // absent: the database has the bytes
	Bytes   int64         `json:"damagedBytes"`
	Since   time.Time     `json:"since"`
	Reason  string        `json:"reason"`
	Blobs   []DamagedBlob `json:"blobs"` // none: an upload's part
}

// DamagedBlob is a blob with damaged bytes.
type DamagedBlob struct {
	Account string `json:"account"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"` // absent: the current one
}

// DamagePage is a page in the list of damage.
type DamagePage struct {
	Damaged []Damage `json:"damaged"`
	Next    string   `json:"next,omitempty"`
}

// OpenUpload is an open upload, and the group that is charged for it.
type OpenUpload struct {
	Upload

	Group string `json:"group,omitempty"`
}

// OpenUploadPage is a page in the list of all accounts' open uploads.
type OpenUploadPage struct {
	Uploads []OpenUpload `json:"uploads"`
	Next    string       `json:"next,omitempty"`
}

// Action is an administrative action.
type Action struct {
	ID       string          `json:"id"`
	Time     time.Time       `json:"time"`
	Key      string          `json:"key,omitempty"`   // absent: the operator at the database
	Group    string          `json:"group,omitempty"` // the key's
	From     string          `json:"from"`            // an address, or user@host
	Action   string          `json:"action"`          // such as "key.create"
	Subject  string          `json:"subject"`         // the changed thing's id or name
	Accounts []string        `json:"accounts,omitempty"`
	Before   json.RawMessage `json:"before,omitzero"`
	After    json.RawMessage `json:"after,omitzero"`
}

// ActionPage is a page in the list of actions.
type ActionPage struct {
	Actions []Action `json:"actions"`
	Next    string   `json:"next,omitempty"`
}

// Task is a background task, which one node does.
type Task struct {
	Task      string    `json:"task"`
	Pausable  bool      `json:"pausable"`
	Startable bool      `json:"startable"`
	Paused    time.Time `json:"paused,omitzero"`  // since when
	Reason    string    `json:"reason,omitempty"` // why it is paused; absent: an operator has paused it
	Due       *TaskDue  `json:"due,omitempty"`    // of a paused task that deletes versions
	Wanted    time.Time `json:"wanted,omitzero"`  // when the start was requested that no run has served yet
	Running   time.Time `json:"running,omitzero"` // since when
	Next      time.Time `json:"next,omitzero"`    // absent: not known
	Last      *TaskRun  `json:"last,omitempty"`
}

// TaskDue are the versions that a paused task would delete now.
type TaskDue struct {
	Versions int64 `json:"versions"`
	Bytes    int64 `json:"bytes"`
	More     bool  `json:"more,omitempty"` // there may be more, which were not counted
}

// TaskRun is a task's run that has ended.
type TaskRun struct {
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"` // that it took
	Handled int64     `json:"handled"` // things
	Error   string    `json:"error,omitempty"`
	Node    string    `json:"node"`
}

// TaskList has all tasks.
type TaskList struct {
	Tasks []Task `json:"tasks"`
}

// Node is an instance's node, as it has described itself last.
type Node struct {
	Name    string    `json:"name"` // several nodes may have the same
	Version string    `json:"version"`
	Ready   bool      `json:"ready"`
	Reason  string    `json:"reason,omitempty"` // why it is not ready
	Since   time.Time `json:"since,omitzero"`   // since when it is ready, or is not
	Leader  bool      `json:"leader"`           // it does the background tasks
}

// NodeList has all nodes.
type NodeList struct {
	Nodes []Node `json:"nodes"`
}

// Block is the operator's refusal of all reads.
type Block struct {
	Reason string    `json:"reason"`
	By     string    `json:"by,omitempty"`   // the key's id; absent: the operator at the database
	Since  time.Time `json:"since,omitzero"` // absent in the record of an action: its time
}

// Place is an account, the blobs in it with names that begin with a prefix, or one blob, with the
// settings of who may read and list.
type Place struct {
	Account string `json:"account"`
	Prefix  string `json:"prefix,omitempty"`
	Blob    string `json:"blob,omitempty"` // its name; then there is no prefix
	Reads   string `json:"reads,omitempty"`
	Lists   string `json:"lists,omitempty"`
	MayOpen bool   `json:"mayOpen,omitempty"` // the account may open itself beyond the instance's reads
	Guarded bool   `json:"guarded,omitempty"` // the account has a public access block, by S3's interface
	Blocked *Block `json:"blocked,omitempty"`
}

// PlaceRule is a place with the rule that is in force there.
type PlaceRule struct {
	Place

	InForce RuleInForce `json:"inForce"`
}

// RuleInForce holds at a place, by its own settings or by a place above it.
type RuleInForce struct {
	Reads   string `json:"reads"` // public, key, paid or free
	Lists   string `json:"lists"` // public or key, for everything below
	Blocked *Block `json:"blocked,omitempty"`
}

// ChangePlace is the request that changes a place. What is absent stays as it is.
type ChangePlace struct {
	Reads   *string `json:"reads,omitempty"` // "instance", "public", "key" or "free"; "": as the place above
	Lists   *string `json:"lists,omitempty"` // "instance", "public" or "key"; "": as the place above
	MayOpen *bool   `json:"mayOpen,omitempty"`
	Block   *string `json:"block,omitempty"` // the reason; "": it is not blocked any more
}

// PlacePage is a page in the list of places.
type PlacePage struct {
	Places []Place `json:"places"`
	Next   string  `json:"next,omitempty"`
}

// The values of Keeping.Keep.
const (
	KeepOn  = "on"  // replaced and deleted blobs are kept as versions
	KeepOff = "off" // only versions that were committed while it was KeepOn are kept
)

// SetKeeping is the request that sets which versions an account keeps.
type SetKeeping struct {
	Keep string `json:"keep"`
	// For is how long a version is kept after it ceased to be current, such as "720h" or "30d";
	// absent: without limit.
	For  string `json:"for,omitempty"`
	Most int    `json:"most,omitzero"` // of one name besides the current one; absent: any number
	// Locks are there if versions can have locks, which is for ever. Absent in a request: they stay
	// as they are.
	Locks *LockSetting `json:"locks,omitzero"`
}

// LockSetting is an account's setting of locks.
type LockSetting struct {
	// Mode and For are a new version's retention, unless its writer states one; absent: none.
	Mode string `json:"mode,omitempty"`
	For  string `json:"for,omitempty"`
	// Most is the longest time for which a version may be locked, by default ten years. Only
	// administrators of all accounts change it. Absent in a request: it stays as it is.
	Most string `json:"most,omitempty"`
}

// Keeping is an account's setting for its versions.
type Keeping struct {
	Account string `json:"account"`
	SetKeeping
	Changed time.Time `json:"changed,omitzero"` // absent: never
	Pending bool      `json:"pending"`          // older versions are yet to be treated by the setting
	Handled int64     `json:"handled"`          // versions that were treated since it was changed
	ETag    string    `json:"etag"`
}

// KeepingPage is a page in the list of accounts that keep versions, or did.
type KeepingPage struct {
	Accounts []Keeping `json:"accounts"`
	Next     string    `json:"next,omitempty"`
}

// Rule removes blobs, versions and uploads. An absent member has no effect.
type Rule struct {
	ID       string            `json:"id"`
	Disabled bool              `json:"disabled,omitzero"`
	Prefix   string            `json:"prefix,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`   // a blob has all of them
	AtLeast  int64             `json:"atLeast,omitzero"` // bytes
	Below    int64             `json:"below,omitzero"`   // bytes

	ExpireDays int       `json:"expireDays,omitzero"` // removes a current blob, days after it was modified
	ExpireOn   time.Time `json:"expireOn,omitzero"`   // and from this midnight in UTC on
	DropDays   int       `json:"dropDays,omitzero"`   // removes a version, days after it ceased to be current
	DropBeyond int       `json:"dropBeyond,omitzero"` // if so many newer ones are not current
	AbortDays  int       `json:"abortDays,omitzero"`  // aborts an upload, days after it began
	LoneMarks  bool      `json:"loneMarks,omitzero"`  // removes a mark if the name has nothing else
	OldForm    bool      `json:"oldForm,omitzero"`    // S3 writes Prefix without a Filter
}

// SetRules is the request that sets an account's rules.
type SetRules struct {
	Rules []Rule `json:"rules"`
}

// RuleCounts are things that a rule has removed or would remove.
type RuleCounts struct {
	Blobs    int64 `json:"blobs,omitzero"` // current ones
	Versions int64 `json:"versions,omitzero"`
	Marks    int64 `json:"marks,omitzero"`
	Uploads  int64 `json:"uploads,omitzero"`
	Bytes    int64 `json:"bytes,omitzero"` // of all these
}

// RuleRun is a run of an account's rules over all that it has.
type RuleRun struct {
	Began  time.Time             `json:"began"`
	Ended  time.Time             `json:"ended,omitzero"`
	Looked int64                 `json:"looked"` // how many blobs, versions, marks and uploads were looked at
	Taken  map[string]RuleCounts `json:"taken"`  // by the rules' ids
}

// Rules are an account's rules.
type Rules struct {
	Account string `json:"account"`
	SetRules
	Changed time.Time `json:"changed,omitzero"`
	Next    time.Time `json:"next,omitzero"` // when the next run begins, unless one is in progress
	Running *RuleRun  `json:"running,omitempty"`
	Last    *RuleRun  `json:"last,omitempty"` // the last run that has ended
	ETag    string    `json:"etag"`
}

// RulesPage is a page in the list of accounts with rules.
type RulesPage struct {
	Accounts []Rules `json:"accounts"`
	Next     string  `json:"next,omitempty"`
}

// PreviewRules is the request for a part of a count.
type PreviewRules struct {
	Rules *[]Rule `json:"rules,omitempty"` // absent: the account's
	After string  `json:"after,omitempty"` // the last part's Next
}

// RulesPreview is a part of a count of things that rules would remove now.
type RulesPreview struct {
	Looked int64                 `json:"looked"`
	Taken  map[string]RuleCounts `json:"taken"`
	Next   string                `json:"next,omitempty"` // absent: it is the last part
}
