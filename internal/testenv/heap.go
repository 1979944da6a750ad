package testenv

import "runtime"

// Heap returns how many bytes reachable objects have.
func Heap() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one has found by finalizers and pools
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}
