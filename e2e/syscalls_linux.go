package e2e

import (
	"regexp"
)

// The lines that strace writes: of a call, of one that another thread interrupts, and of an exit.
var (
	WholeCall   = regexp.MustCompile(`^\d+ +(\w+)\((.*)\) += (-?\d+)`)
	BegunCall   = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	ResumedCall = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>.*\) += (-?\d+)`)
	ExitedLine  = regexp.MustCompile(`^(\d+) +\+\+\+ (exited|killed) `)
)
