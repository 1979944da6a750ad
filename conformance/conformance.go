// Package conformance checks whether a server speaks the interface that docs/protocol.md describes.
// It sends HTTP requests to public operations only, and never needs an administrator's address.
//
// A case checks one rule. Its blobs and uploads have names that begin with the run's random prefix,
// and are deleted when it ends. Sessions and channels cannot be deleted; channels are opened by
// cases of the level Extended only.
package conformance

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Level is how much of the interface a case requires. Each level includes the ones before.
type Level int

const (
	// Seed is the interface's operations and their required responses.
	Seed Level = iota
	// Client has, in addition, the rules on which the public TypeScript client relies.
	Client
	// Extended is everything else that docs/protocol.md promises.
	Extended
)

// Levels has the names of the levels, in their order.
var Levels = []string{"seed", "client", "extended"}

func (l Level) String() string { return Levels[l] }

// MarshalText returns the level's name.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText sets the level to the one with this name.
func (l *Level) UnmarshalText(name []byte) (err error) {
	*l, err = ParseLevel(string(name))
	return err
}

// ParseLevel returns the level with a name.
func ParseLevel(name string) (Level, error) {
	i := slices.Index(Levels, name)
	if i < 0 {
		return 0, fmt.Errorf("%q is not a level: it must be one of %s", name, strings.Join(Levels, ", "))
	}
	return Level(i), nil
}

// A Case checks one rule of the interface.
type Case struct {
	Name    string `json:"name"`    // unique, such as "put/replaces"
	Section string `json:"section"` // the heading in docs/protocol.md that states the rule
	Level   Level  `json:"level"`

	needs []need
	check func(*trial)
}

// Result is a case's outcome.
type Result struct {
	Case
	Outcome Outcome `json:"outcome"`
	// Reason is why the case failed or was skipped.
	Reason   string        `json:"reason,omitempty"`
	Requests int           `json:"requests"` // that the case sent
	Duration time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"` // Duration
}
