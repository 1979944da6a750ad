//go:build !amd64

package claycode

const hasCombine3 = false

func combine3(*uint64, *[]byte, int, *byte, *byte, *byte, int) {}
