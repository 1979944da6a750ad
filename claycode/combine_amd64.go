package claycode

import "golang.org/x/sys/cpu"

// hasCombine3 reports whether the processor has combine3's instructions.
var hasCombine3 = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512GFNI

// combine3 sets three outputs to sums over the inputs, each times a factor. The factors are in
// matrices, three for each input; size is a multiple of 128.
//
//go:noescape
func combine3(matrices *uint64, in *[]byte, inputs int, a, b, c *byte, size int)
