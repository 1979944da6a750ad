package task

import (
	"errors"
	"fmt"
)

// Failures collects a background task's errors. It counts them and keeps the first few, so that
// thousands of objects that fail for one reason are one line in the log.
type Failures struct {
	count   int
	samples []error
}

const maxSamples = 3

// Add adds an error, unless it is nil.
func (f *Failures) Add(err error) {
	if err == nil {
		return
	}
	if f.count++; len(f.samples) < maxSamples {
		f.samples = append(f.samples, err)
	}
}

// Err returns nil if there were no errors. Otherwise it returns an error that wraps the samples and
// reports the number of errors.
func (f *Failures) Err() error {
	samples := errors.Join(f.samples...)
	if f.count <= len(f.samples) {
		return samples
	}
	return fmt.Errorf("%d failures, for example: %w", f.count, samples)
}
