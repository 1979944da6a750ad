package bytestore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Undeleted is the error of a Delete: the objects that may still be there, and
// why. Its text names one of them.
type Undeleted map[Key]error

// Error implements error.
func (u Undeleted) Error() string {
	if len(u) == 0 {
		return "no object was left"
	}
	first := slices.Min(slices.Collect(maps.Keys(u)))
	if len(u) == 1 {
		return u[first].Error()
	}
	return fmt.Sprintf("%d objects were not deleted, such as: %v", len(u), u[first])
}

// Unwrap returns the errors of all objects.
func (u Undeleted) Unwrap() []error { return slices.Collect(maps.Values(u)) }

// OrNil returns u as an error, or nil when it names no object.
func (u Undeleted) OrNil() error {
	if len(u) == 0 {
		return nil
	}
	return u
}

// UndeletedOf returns which of the keys a Delete of them left behind when it
// returned err: all of them where err does not say.
func UndeletedOf(keys []Key, err error) Undeleted {
	if err == nil {
		return nil
	}
	if u, ok := errors.AsType[Undeleted](err); ok {
		return u
	}
	u := make(Undeleted, len(keys))
	for _, key := range keys {
		u[key] = err
	}
	return u
}

// DeleteEach deletes the objects one after the other by remove, and returns an
// Undeleted of those for which that failed. It is what a Store without requests
// for many objects makes of Delete.
func DeleteEach(keys []Key, remove func(Key) error) error {
	left := Undeleted{}
	for _, key := range keys {
		if err := remove(key); err != nil {
			left[key] = err
		}
	}
	return left.OrNil()
}
