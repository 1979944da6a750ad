package boottime

import "testing"

func BenchmarkSystemCall(b *testing.B) {
	for b.Loop() {
		bootTime()
	}
}
