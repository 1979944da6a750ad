package testenv

import "runtime"

// Heap returns how many bytes reachable objects have.
func Heap() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC() // frees memory that the first one has left to finalizers and pools
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}
