// Package gcfloor lets the Go heap grow to a minimum size before the runtime collects. A server
// with a small live heap would otherwise collect many times per second, at a fixed cost each time.
package gcfloor

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// usualPercent is the default of GOGC: the heap may double between two collections.
const usualPercent = 100

// runtimeMinimum is the heap at which the runtime collects first, at GOGC=100. It grows with GOGC.
const runtimeMinimum = 4 << 20

// Set lets the heap grow to about size bytes, or twice the live heap if that is more, before the
// runtime collects. It holds until the process ends. It must be called once. A limit of GOMEMLIMIT
// still applies. Set does nothing if the environment has GOGC: then its value applies.
func Set(size uint64) {
	if os.Getenv("GOGC") == "" {
		start(&floor{size: size, adjusted: func(int) {}})
	}
}

// floor is the heap's minimum size.
type floor struct {
	size     uint64
	percent  int               // the current value of GOGC
	adjusted func(percent int) // called after each collection
}

func start(f *floor) {
	f.percent = percentFor(f.size, 0, runtimeMinimum)
	debug.SetGCPercent(f.percent)
	f.afterNext()
}

// cycle is unreachable from its creation on, so its cleanup runs after the next collection. It has
// a pointer because the runtime may join small objects without pointers.
type cycle struct{ _ *cycle }

// afterNext calls adjust after the next collection.
func (f *floor) afterNext() { runtime.AddCleanup(new(cycle), (*floor).adjust, f) }

// adjust sets GOGC for the live heap that the last collection has found.
func (f *floor) adjust() {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	live := samples[0].Value.Uint64()
	percent := percentFor(f.size, live, live+samples[1].Value.Uint64()+samples[2].Value.Uint64())
	// A change stops all goroutines for a moment, so small ones are not worth it.
	if change := percent - f.percent; max(change, -change) > f.percent/8 || percent == usualPercent && change != 0 {
		debug.SetGCPercent(percent)
		f.percent = percent
	}
	f.afterNext()
	f.adjusted(f.percent)
}

// percentFor returns the value for GOGC with which the next collection begins at a heap of size
// bytes, or at least the usual one. live is the live heap in bytes. The runtime takes the
// percentage from roots: the live heap, stacks and global variables.
func percentFor(size, live, roots uint64) int {
	if live >= size {
		return usualPercent
	}
	percent := float64(size-live) / float64(max(roots, runtimeMinimum)) * 100
	return int(min(max(percent, usualPercent), math.MaxInt32))
}
