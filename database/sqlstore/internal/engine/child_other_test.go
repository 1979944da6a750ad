//go:build !unix

package engine

import "fmt"

// runChild fails: the jobs of the re-executed test binary need Unix.
func runChild(job, _ string) error { return fmt.Errorf("job %q needs Unix", job) }
