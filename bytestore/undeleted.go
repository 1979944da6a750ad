package bytestore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Undeleted is a Delete's error. It holds the objects that may still exist, each with the reason.
type Undeleted map[Name]error

// Error returns the reason for one object and, if there are several, their number.
func (u Undeleted) Error() string {
	if len(u) == 0 {
		return "all objects were deleted"
	}
	first := slices.Min(slices.Collect(maps.Keys(u)))
	if len(u) == 1 {
		return u[first].Error()
	}
	return fmt.Sprintf("%d objects were not deleted, for example: %v", len(u), u[first])
}

// Unwrap returns the reasons of all objects.
func (u Undeleted) Unwrap() []error { return slices.Collect(maps.Values(u)) }

// OrNil returns u as an error, or nil if u is empty.
func (u Undeleted) OrNil() error {
	if len(u) == 0 {
		return nil
	}
	return u
}

// UndeletedOf returns the objects that may still exist after Delete returned err for names. If err
// is neither nil nor an Undeleted, these are all of them.
func UndeletedOf(names []Name, err error) Undeleted {
	if err == nil {
		return nil
	}
	if u, ok := errors.AsType[Undeleted](err); ok {
		return u
	}
	u := make(Undeleted, len(names))
	for _, name := range names {
		u[name] = err
	}
	return u
}

// DeleteEach implements Delete for a Store that removes one object at a time, by calling remove for
// each name.
func DeleteEach(names []Name, remove func(Name) error) error {
	left := Undeleted{}
	for _, name := range names {
		if err := remove(name); err != nil {
			left[name] = err
		}
	}
	return left.OrNil()
}
