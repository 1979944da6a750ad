package blob

import (
	"errors"
	"fmt"
)

// failures are the errors of a round of work. They are counted, and the first
// few are kept: thousands of objects that fail for one reason are one line of a
// log.
type failures struct {
	count   int
	samples []error
}

// maxSamples is how many errors are kept.
const maxSamples = 3

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	if f.count++; len(f.samples) < maxSamples {
		f.samples = append(f.samples, err)
	}
}

// err returns nil when there were none, and otherwise an error that is each of
// those kept, and says how many there were.
func (f *failures) err() error {
	samples := errors.Join(f.samples...)
	if f.count <= len(f.samples) {
		return samples
	}
	return fmt.Errorf("%d failures, such as: %w", f.count, samples)
}
