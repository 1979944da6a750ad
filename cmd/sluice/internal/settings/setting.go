package settings

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"sluice/node"
)

// Setting is a row of settingTable: a flag, an environment variable and a configuration key with
// the same value.
type Setting struct {
	Name    string // the flag's and the key's; the variable is SLUICE_ and the name in upper case
	Section section
	Value   target // where the value goes, with its type and default
	Help    string // sentences, without the default and the profile

	choices     string // the possible values, separated by commas; "" if they cannot be listed
	placeholder string // the value's kind, such as FILE; "" for one that is derived from the type
	words       string // the default in words; "" if value has all of it
	tag         string // further tags for kong

	only       node.Profile // the profile that allows it; "": the section's, or both
	refusal    string       // why the other profile refuses it; "" for a general sentence
	required   string       // how a hosted instance's error without it ends; "": it is not required
	needsChain bool         // it has an effect only with --chain-url
	Check      Check        // checks the value; nil: each is valid
}

// HasWords is the tag of flags and arguments that have their default in words in their help.
const HasWords = "words"

// section is a group of settings in the help and in docs/flags.md.
type section struct {
	title string       // as in the help, with a colon; "" for the first, which has none
	only  node.Profile // the profile that allows its settings; "": both
}

// Profile returns the profile that allows the setting, or "" for both.
func (s *Setting) Profile() node.Profile { return cmp.Or(s.only, s.Section.only) }

// FlagHelp returns the help with the default, unless kong adds it, and the profile, unless the
// its section.s title names it.
func (s *Setting) FlagHelp() string {
	text := s.Help
	if s.words != "" {
		text += " Default: " + s.words + "."
	}
	if s.only != "" {
		text += " " + strings.ToUpper(string(s.only[:1])) + string(s.only[1:]) + " profile only."
	}
	return text
}

// field returns a field with which kong defines the flag.
func (s *Setting) field() reflect.StructField {
	tag := fmt.Sprintf("name:%q help:%q", s.Name, s.FlagHelp())
	for key, value := range map[string]string{
		"group": s.Section.title, "placeholder": s.placeholder, "enum": s.choices, "default": s.Value.defaults().constant, HasWords: s.words,
	} {
		if value != "" {
			tag += fmt.Sprintf(" %s:%q", key, value)
		}
	}
	return reflect.StructField{Name: "Flag" + strings.ReplaceAll(s.Name, "-", "_"), Type: s.Value.flagType(), Tag: reflect.StructTag(tag + " " + s.tag)}
}

// validate reports whether the setting is given where it is not allowed, is missing where it is
// required, or has a value that is not valid.
func (s *Setting) validate(p node.Profile, chain bool) error {
	flag := "--" + s.Name
	switch only := s.Profile(); {
	case s.Value.given() && only != "" && only != p:
		return fmt.Errorf("%s: %s", flag, cmp.Or(s.refusal, "requires the "+string(only)+" profile"))
	case s.Value.given() && s.needsChain && !chain:
		return fmt.Errorf("%s: requires --chain-url; without a chain nothing is collected", flag)
	case s.required != "" && p == node.Hosted && s.Value.text() == "":
		return fmt.Errorf("%s: is required for the hosted profile%s", flag, s.required)
	case s.Check == nil || s.needsChain && !chain:
		return nil
	}
	return s.Check(flag)
}

// effective returns the value as it is written in a configuration file. It is "" if the setting has
// none, or is not set and cannot be.
func (s *Setting) effective(p node.Profile, chain bool) string {
	disallowed := s.Profile() != "" && s.Profile() != p || s.needsChain && !chain
	if disallowed && !s.Value.given() && s.Value.defaults().depends {
		return ""
	}
	return s.Value.text()
}

// target is where a setting's value goes: a variable of any type.
type target interface {
	flagType() reflect.Type
	defaults() defaults
	take(flag reflect.Value) // sets the variable to a flag's value
	complete()               // sets the variable to its default if the flag was not given
	given() bool             // reports whether the flag was given; false if its default is a constant
	text() string            // the value as in a configuration file; "" if there is none
	list() ([]string, bool)  // the value if it is a list
}

// defaults describe the default of a setting. They are empty if it is the zero value.
type defaults struct {
	constant      string // always the same
	depends       bool   // on other settings
	local, hosted string // of each profile, if it depends on nothing else
}

// Bound is a target: a variable, and its default.
type Bound[T any] struct {
	to        *T
	byDefault defaults
	otherwise func() T // returns a default that depends on other settings; nil if none does
	set       bool
}

// optional returns a target without a default.
func optional[T any](to *T) *Bound[T] { return &Bound[T]{to: to} }

// Constant returns a target with a default, as text.
func Constant[T any](to *T, text string) *Bound[T] {
	return &Bound[T]{to: to, byDefault: defaults{constant: text}}
}

// computed returns a target with a default that depends on settings before it.
func computed[T any](to *T, otherwise func() T) *Bound[T] {
	return &Bound[T]{to: to, byDefault: defaults{depends: true}, otherwise: otherwise}
}

// fixed returns a target with a default. Unlike with constant, it is known whether the flag was
// given.
func fixed[T any](to *T, value T) *Bound[T] { return computed(to, func() T { return value }) }

// perProfile returns a target with a default for each profile.
func perProfile[T any](profile *node.Profile, to *T, local, hosted T) *Bound[T] {
	v := computed(to, func() T {
		if *profile == node.Hosted {
			return hosted
		}
		return local
	})
	v.byDefault.local, v.byDefault.hosted = TextOf(local), TextOf(hosted)
	return v
}

func (v *Bound[T]) defaults() defaults { return v.byDefault }

// flagType returns a pointer type if zero can be given and differs from the default. An empty
// string counts as not given, as does a count or size that is zero.
func (v *Bound[T]) flagType() reflect.Type {
	_, limit := any(v.to).(encoding.TextUnmarshaler)
	if v.otherwise == nil || limit || reflect.TypeFor[T]().Kind() == reflect.String {
		return reflect.TypeFor[T]()
	}
	return reflect.TypeFor[*T]()
}

func (v *Bound[T]) take(flag reflect.Value) {
	empty := flag.IsZero() || flag.Kind() == reflect.Slice && flag.Len() == 0
	v.set = !empty && v.byDefault.constant == ""
	switch value := flag.Interface().(type) {
	case T:
		*v.to = value
	case *T:
		if value != nil {
			*v.to = *value
		}
	}
}

func (v *Bound[T]) complete() {
	if v.otherwise != nil && !v.set {
		*v.to = v.otherwise()
	}
}

func (v *Bound[T]) given() bool { return v.set }

func (v *Bound[T]) list() ([]string, bool) {
	list, isList := any(*v.to).([]string)
	return list, isList
}

func (v *Bound[T]) text() string {
	if n, isNumber := any(*v.to).(int); isNumber && n == 0 && v.byDefault == (defaults{}) {
		return ""
	}
	return TextOf(*v.to)
}

// TextOf returns a value as it is written in a configuration file.
func TextOf(value any) string {
	switch value := value.(type) {
	case time.Duration:
		return value.String()
	case encoding.TextMarshaler:
		if text, err := value.MarshalText(); err == nil {
			return strings.ToLower(string(text))
		}
	case fmt.Stringer:
		return value.String()
	case []string:
		return strings.Join(value, ",")
	}
	return fmt.Sprint(value)
}
