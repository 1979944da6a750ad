package node

import (
	"strings"
	"sync"
)

// logBuffer keeps what is written from many goroutines.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write keeps p.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String gives all that was written.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
