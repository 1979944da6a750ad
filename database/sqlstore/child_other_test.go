//go:build !unix

package sqlstore

import "fmt"

// runChild fails: the re-executed test binary's jobs need Unix.
func runChild(job, _ string) error { return fmt.Errorf("job %q needs Unix", job) }
