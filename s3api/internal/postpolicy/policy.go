package postpolicy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Errors of policies.
var (
	// ErrPolicy means that a policy is not a well-formed document (InvalidPolicyDocument).
	ErrPolicy = errors.New("the policy is invalid")
	// ErrRefused means that the form's policy does not allow it (AccessDenied).
	ErrRefused = errors.New("the form is invalid according to its policy")
)

// policy is the signer's permission.
type policy struct {
	expiration time.Time
	conditions []condition
	least      int64 // of the file, in bytes
	most       int64
}

// condition restricts a field.
type condition struct {
	field  string // in lower case
	value  string
	prefix bool // whether the field only begins with the value
}

// String returns the condition as the policy could have it.
func (c condition) String() string {
	match := "eq"
	if c.prefix {
		match = "starts-with"
	}
	return fmt.Sprintf("[%q, %q, %q]", match, "$"+c.field, c.value)
}

// holds reports whether a field's value meets the condition. A missing field has the empty value.
// In a list of types, each must begin with the prefix.
func (c condition) holds(value string) bool {
	if !c.prefix {
		return value == c.value
	}
	if c.field != "content-type" {
		return strings.HasPrefix(value, c.value)
	}
	for one := range strings.SplitSeq(value, ",") {
		if !strings.HasPrefix(strings.TrimLeft(one, " "), c.value) {
			return false
		}
	}
	return true
}

// anySize is the largest size that a file without a condition has.
const anySize = 1<<63 - 1

// parsePolicy reads a policy in base64. The error wraps ErrPolicy.
func parsePolicy(text string) (policy, error) {
	document, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return policy{}, fmt.Errorf("%w: it is not base64", ErrPolicy)
	}
	var sent struct {
		Expiration string            `json:"expiration"`
		Conditions []json.RawMessage `json:"conditions"`
	}
	if err := json.Unmarshal(standard(document), &sent); err != nil {
		return policy{}, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	p := policy{most: anySize}
	if p.expiration, err = time.Parse(time.RFC3339, sent.Expiration); err != nil {
		return policy{}, fmt.Errorf("%w: expiration must be a time such as 2026-01-02T15:04:05.000Z", ErrPolicy)
	}
	if sent.Conditions == nil {
		return policy{}, fmt.Errorf("%w: there must be a list of conditions", ErrPolicy)
	}
	for _, one := range sent.Conditions {
		if err := p.add(one); err != nil {
			return policy{}, err
		}
	}
	return p, nil
}

// standard returns a document without the escapes that S3 has beyond JSON: \$ and \v.
func standard(document []byte) []byte {
	var out bytes.Buffer
	for i := 0; i < len(document); i++ {
		c := document[i]
		if c != '\\' || i+1 == len(document) {
			out.WriteByte(c)
			continue
		}
		i++
		switch document[i] {
		case '$':
			out.WriteByte('$')
		case 'v':
			out.WriteString(`\u000b`)
		default:
			out.Write([]byte{'\\', document[i]})
		}
	}
	return out.Bytes()
}

// add adds a condition in one of its forms.
func (p *policy) add(text json.RawMessage) error {
	var exact map[string]string
	if err := json.Unmarshal(text, &exact); err == nil && len(exact) > 0 {
		for field, value := range exact {
			p.conditions = append(p.conditions, condition{field: strings.ToLower(field), value: value})
		}
		return nil
	}
	var list []any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a float64 does not hold every size
	if err := decoder.Decode(&list); err != nil || len(list) != 3 {
		return badCondition(text)
	}
	switch match, _ := list[0].(string); strings.ToLower(match) {
	case "eq":
		return p.addMatch(text, list, false)
	case "starts-with":
		return p.addMatch(text, list, true)
	case "content-length-range":
		return p.addRange(text, list)
	}
	return badCondition(text)
}

func (p *policy) addMatch(text json.RawMessage, list []any, prefix bool) error {
	name, isName := list[1].(string)
	value, isValue := list[2].(string)
	field, isField := strings.CutPrefix(name, "$")
	if !isName || !isValue || !isField || field == "" {
		return badCondition(text)
	}
	p.conditions = append(p.conditions, condition{strings.ToLower(field), value, prefix})
	return nil
}

// addRange adds a range of sizes. All of them must hold.
func (p *policy) addRange(text json.RawMessage, list []any) error {
	least, leastErr := strconv.ParseInt(fmt.Sprint(list[1]), 10, 64)
	most, mostErr := strconv.ParseInt(fmt.Sprint(list[2]), 10, 64)
	if leastErr != nil || mostErr != nil || least < 0 || most < least {
		return badCondition(text)
	}
	p.least, p.most = max(p.least, least), min(p.most, most)
	return nil
}

func badCondition(text json.RawMessage) error {
	return fmt.Errorf("%w: there is no condition of the form %.200s", ErrPolicy, text)
}

// exempt reports whether a field needs no condition.
func exempt(field string) bool {
	return field == "policy" || field == "x-amz-signature" || strings.HasPrefix(field, "x-ignore-")
}

// check compares a form's fields with the policy. They include the bucket. The error wraps
// ErrRefused.
func (p *policy) check(fields map[string]string, now time.Time) error {
	if !now.Before(p.expiration) {
		return fmt.Errorf("%w: the policy has expired", ErrRefused)
	}
	covered := map[string]bool{}
	for _, c := range p.conditions {
		if !c.holds(fields[c.field]) {
			return fmt.Errorf("%w: the condition %.200s does not hold", ErrRefused, c)
		}
		covered[c.field] = true
	}
	for field := range fields {
		if !covered[field] && !exempt(field) {
			return fmt.Errorf("%w: it has no condition for the field %.40q", ErrRefused, field)
		}
	}
	return nil
}
