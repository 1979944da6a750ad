package blob

import (
	"errors"
	"fmt"
)

// failures collects a background task's errors. It counts them and keeps the first few, so that
// thousands of objects that fail for one reason are one line in the log.
type failures struct {
	count   int
	samples []error
}

const maxSamples = 3

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	if f.count++; len(f.samples) < maxSamples {
		f.samples = append(f.samples, err)
	}
}

// err returns nil if there were no errors. Otherwise it returns an error that wraps the samples and
// reports the number of errors.
func (f *failures) err() error {
	samples := errors.Join(f.samples...)
	if f.count <= len(f.samples) {
		return samples
	}
	return fmt.Errorf("%d failures, for example: %w", f.count, samples)
}
