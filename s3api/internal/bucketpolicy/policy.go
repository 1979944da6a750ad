// Package bucketpolicy reads and writes the bucket policies that open a bucket, or names in it, to
// everybody ("Policies and permissions in Amazon S3", Amazon S3 User Guide).
package bucketpolicy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxBytes is a policy's greatest length in bytes, as Amazon has it.
const MaxBytes = 20 << 10

// current is the Version of policies that Format writes.
const current = "2012-10-17"

// Errors of policies. Their texts name the statement.
var (
	// ErrMalformed means that a text is not a policy (MalformedPolicy).
	ErrMalformed = errors.New("the policy is malformed")
	// ErrUnsupported means that a policy has a statement that cannot be obeyed (NotImplemented).
	ErrUnsupported = errors.New("the policy cannot be obeyed")
)

// Open is a permission for everybody.
type Open struct {
	Lists bool   // to list names; otherwise to read objects
	Exact bool   // for the object with the name alone; otherwise for all names that begin with it
	Name  string // unescaped
}

// policy and statement are as in "Policy elements" (Amazon S3 User Guide).
type policy struct {
	Version   string
	ID        string `json:"Id"`
	Statement oneOrMore[statement]
}

type statement struct {
	Sid       string
	Effect    string
	Principal principal
	Action    oneOrMore[string]
	Resource  oneOrMore[string]
	Condition map[string]map[string]oneOrMore[string]
}

// oneOrMore is a list whose only entry may stand without brackets.
type oneOrMore[T any] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *oneOrMore[T]) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]T)(l), strict)
	}
	*l = make([]T, 1)
	return json.Unmarshal(text, &(*l)[0], strict)
}

// principal is whom a statement permits something: "*", or lists of names by their kinds.
type principal map[string]oneOrMore[string]

// UnmarshalJSON implements json.Unmarshaler.
func (p *principal) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		var name string
		err := json.Unmarshal(text, &name)
		*p = principal{"AWS": {name}}
		return err
	}
	return json.Unmarshal(text, (*map[string]oneOrMore[string])(p), strict)
}

var strict = json.RejectUnknownMembers(true)

// Parse returns the permissions that a bucket's policy gives, sorted and without duplicates. The
// error wraps ErrMalformed or ErrUnsupported.
func Parse(text []byte, bucket string) ([]Open, error) {
	var p policy
	if hasNull(text) {
		return nil, fmt.Errorf("%w: no value can be null", ErrMalformed)
	}
	if err := json.Unmarshal(text, &p, strict); err != nil {
		return nil, fmt.Errorf("%w: %.200s", ErrMalformed, strings.TrimPrefix(err.Error(), "json: "))
	}
	if p.Version != "" && p.Version != current && p.Version != "2008-10-17" {
		return nil, fmt.Errorf("%w: its Version must be 2012-10-17 or 2008-10-17", ErrMalformed)
	}
	if len(p.Statement) == 0 {
		return nil, fmt.Errorf("%w: it needs a Statement", ErrMalformed)
	}
	var all []Open
	var located []string // statements that permit to read the bucket's location
	for i, s := range p.Statement {
		name := fmt.Sprintf("statement %d", i+1)
		if s.Sid != "" {
			name += fmt.Sprintf(" (%.64q)", s.Sid)
		}
		open, err := s.open(bucket, p.Version)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", err, name)
		}
		all = append(all, open...)
		if s.names(getLocation) {
			located = append(located, name)
		}
	}
	if len(located) > 0 && !slices.ContainsFunc(all, func(o Open) bool { return o.Lists }) {
		return nil, fmt.Errorf("%w: who may list the bucket may read its location, and nobody else, so s3:GetBucketLocation needs s3:ListBucket: %s", ErrUnsupported, located[0])
	}
	return Sorted(all), nil
}

// hasNull reports whether a value is null, which another reader could take for no condition.
func hasNull(text []byte) bool {
	for d := jsontext.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.ReadToken()
		if err != nil || token.Kind() == 'n' {
			return err == nil
		}
	}
}

// Sorted returns the permissions in Parse's order, each once.
func Sorted(open []Open) []Open {
	slices.SortFunc(open, compare)
	return slices.Compact(open)
}

// Line returns a policy that Parse accepts in one line: as it is, or compact.
func Line(policy []byte) string {
	if !bytes.ContainsAny(policy, "\r\n") {
		return string(policy)
	}
	text := jsontext.Value(policy).Clone()
	if err := text.Compact(); err != nil {
		panic("bucketpolicy: " + err.Error()) // it was parsed
	}
	return string(text)
}

func compare(a, b Open) int {
	number := map[bool]int{true: 1}
	return cmp.Or(cmp.Compare(a.Name, b.Name), number[a.Lists]-number[b.Lists], number[a.Exact]-number[b.Exact])
}

// The actions that can be permitted, in lower case.
const (
	getObject   = "s3:getobject"
	listBucket  = "s3:listbucket"
	getLocation = "s3:getbucketlocation"
)

// names reports whether a statement has an action.
func (s *statement) names(action string) bool {
	return slices.ContainsFunc(s.Action, func(a string) bool { return strings.EqualFold(a, action) })
}

// open returns the permissions that a statement gives.
func (s *statement) open(bucket, version string) ([]Open, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	var wholeBucket bool
	var objects []Open
	for _, resource := range s.Resource {
		path, ok := strings.CutPrefix(resource, "arn:aws:s3:::")
		name, isObject := strings.CutPrefix(path, bucket+"/")
		switch {
		case ok && path == bucket:
			wholeBucket = true
		case ok && isObject && name != "":
			o, err := pattern(name, version)
			if err != nil {
				return nil, err
			}
			objects = append(objects, o)
		default:
			return nil, fmt.Errorf("%w: the Resource %.200q is not in this bucket", ErrMalformed, resource)
		}
	}
	var open []Open
	if s.names(getObject) {
		open = objects
	}
	if onBucket := s.names(listBucket) || s.names(getLocation); onBucket && !wholeBucket || s.names(getObject) && len(objects) == 0 {
		return nil, fmt.Errorf("%w: an Action does not apply to any Resource", ErrMalformed)
	}
	listed, err := s.listed(version)
	if err != nil {
		return nil, err
	}
	if s.names(listBucket) {
		open = append(open, listed...)
	}
	return open, nil
}

// check refuses a statement that does more than to allow everybody some actions.
func (s *statement) check() error {
	switch {
	case s.Effect == "Deny":
		return fmt.Errorf("%w: only the Effect Allow is supported", ErrUnsupported)
	case s.Effect != "Allow":
		return fmt.Errorf("%w: the Effect must be Allow or Deny", ErrMalformed)
	case len(s.Principal) == 0 || len(s.Action) == 0 || len(s.Resource) == 0:
		return fmt.Errorf("%w: a statement needs Principal, Action and Resource", ErrMalformed)
	}
	for kind, names := range s.Principal {
		if kind != "AWS" || len(names) != 1 || names[0] != "*" {
			return fmt.Errorf(`%w: the only Principal is "*", which is everybody: keys have rights of their own`, ErrUnsupported)
		}
	}
	for _, action := range s.Action {
		switch strings.ToLower(action) {
		case getObject, listBucket, getLocation:
		default:
			return fmt.Errorf("%w: the Action %.100q: only s3:GetObject, s3:ListBucket and s3:GetBucketLocation can be opened to everybody", ErrUnsupported, action)
		}
	}
	return nil
}

// listed returns the listings to which a statement's condition restricts s3:ListBucket. A list with
// a prefix shows all names below it, so whoever may ask for it may ask for longer prefixes, too.
func (s *statement) listed(version string) (open []Open, err error) {
	if len(s.Condition) == 0 {
		return []Open{{Lists: true}}, nil
	}
	if s.names(getObject) || s.names(getLocation) && len(s.Action) == 1 {
		return nil, fmt.Errorf("%w: only a statement about s3:ListBucket can have a Condition", ErrUnsupported)
	}
	for operator, keys := range s.Condition {
		for key, values := range keys {
			if operator != "StringEquals" && operator != "StringLike" || !strings.EqualFold(key, "s3:prefix") || len(s.Condition)+len(keys) > 2 {
				return nil, fmt.Errorf("%w: the only Condition is one of StringEquals and StringLike on s3:prefix", ErrUnsupported)
			}
			for _, value := range values {
				o := Open{Name: value}
				if operator == "StringLike" {
					if o, err = pattern(value, version); err != nil {
						return nil, err
					}
				}
				open = append(open, Open{Lists: true, Name: o.Name})
			}
		}
	}
	if len(open) == 0 {
		return nil, fmt.Errorf("%w: a Condition needs a value", ErrMalformed)
	}
	return open, nil
}

// The characters that a pattern has for others, and their escapes ("IAM policy elements: Variables
// and tags", AWS Identity and Access Management User Guide), which Version 2012-10-17 has.
var (
	escaped   = strings.NewReplacer("*", "${*}", "?", "${?}", "${", "${$}{")
	unescaped = strings.NewReplacer("${*}", "*", "${?}", "?", "${$}", "$")
	others    = strings.NewReplacer("${*}", "", "${?}", "", "${$}", "")
)

// pattern returns the names that a pattern matches: one, or all with a prefix.
func pattern(text, version string) (Open, error) {
	whole := strings.HasSuffix(others.Replace(text), "*")
	name := text
	if whole {
		name = strings.TrimSuffix(text, "*")
	}
	plain := name
	if version == current {
		plain, name = others.Replace(name), unescaped.Replace(name)
	}
	if strings.ContainsAny(plain, "*?") || strings.Contains(plain, "${") {
		return Open{}, fmt.Errorf(`%w: in %.200q a "*" can only be the end, and "?" and variables cannot be used`, ErrUnsupported, text)
	}
	return Open{Exact: !whole, Name: name}, nil
}

// Format returns a policy that gives the permissions, which must not be empty.
func Format(bucket string, open []Open) []byte {
	type rule struct {
		Effect    string
		Principal string
		Action    string
		Resource  []string
		Condition map[string]map[string][]string `json:",omitzero"`
	}
	const arn = "arn:aws:s3:::"
	reads := rule{Effect: "Allow", Principal: "*", Action: "s3:GetObject"}
	lists := rule{Effect: "Allow", Principal: "*", Action: "s3:ListBucket", Resource: []string{arn + bucket}}
	var prefixes []string
	for _, o := range slices.SortedFunc(slices.Values(open), compare) {
		name := escaped.Replace(o.Name)
		if !o.Exact {
			name += "*"
		}
		if o.Lists {
			prefixes = append(prefixes, name)
		} else {
			reads.Resource = append(reads.Resource, arn+bucket+"/"+name)
		}
	}
	var rules []rule
	if len(reads.Resource) > 0 {
		rules = append(rules, reads)
	}
	if len(prefixes) > 0 {
		if prefixes[0] != "*" {
			lists.Condition = map[string]map[string][]string{"StringLike": {"s3:prefix": prefixes}}
		}
		rules = append(rules, lists)
	}
	text, err := json.Marshal(struct {
		Version   string
		Statement []rule
	}{current, rules}, json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("bucketpolicy: %v", err)) // names were parsed, so they are valid UTF-8
	}
	return text
}
