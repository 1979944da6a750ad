package testenv

import "runtime"

// Heap returns the bytes of the objects that are reachable.
func Heap() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one has found by finalizers and pools
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}
