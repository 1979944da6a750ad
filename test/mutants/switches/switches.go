// Package switches holds the functions that an instrumented package calls in place of its own
// operators. Each call has a mutation's number. It returns the original operator's result, unless
// that mutation is the active one: then it returns the mutated operator's result.
//
// The environment selects the mutation, so that one binary serves all of a package's mutations. The
// functions may be called concurrently.
package switches

import (
	"cmp"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// The environment variables that the functions read, once, when the process starts.
const (
	// Active names the variable that holds the active mutation's number. No mutation is active if
	// it is unset.
	Active = "SLUICE_MUTATION"
	// Record names the variable that holds a file's name. If it is set, then each mutation is
	// appended to the file as a line with its number: once when its operator is first evaluated,
	// and once more when the mutated operator first has another result than the original.
	Record = "SLUICE_MUTATION_RECORD"
)

// Max is the number of mutations that a package may have. Their numbers are 0 to Max-1.
const Max = 1 << 14

var (
	active = number(os.Getenv(Active))
	record = open(os.Getenv(Record))
	lines  [Max]atomic.Uint32 // how many lines each mutation has in the record
)

func number(text string) int {
	if text == "" {
		return -1
	}
	id, err := strconv.Atoi(text)
	if err != nil {
		panic(Active + " is not a number: " + text)
	}
	return id
}

// open returns the record's descriptor, or noRecord if there is none. The record is not an os.File
// because the tests under it may run in a bubble of testing/synctest or count the files that the os
// package has open.
func open(name string) descriptor {
	if name == "" {
		return noRecord
	}
	fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_APPEND|syscall.O_CREAT|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		panic(Record + ": " + err.Error())
	}
	return fd
}

// note records that a mutation's operator was evaluated, and whether the mutation changes its
// result.
func note(id int, changed bool) {
	if record != noRecord {
		noteLines(id, changed)
	}
}

func noteLines(id int, changed bool) {
	want := uint32(1)
	if changed {
		want = 2
	}
	for {
		have := lines[id].Load()
		if have >= want {
			return
		}
		if !lines[id].CompareAndSwap(have, have+1) {
			continue
		}
		// A short line is written atomically to a file in append mode.
		if _, err := syscall.Write(record, []byte(strconv.Itoa(id)+"\n")); err != nil {
			panic(Record + ": " + err.Error())
		}
	}
}

// Flip returns v, or !v if the mutation is active.
func Flip(id int, v bool) bool {
	note(id, true)
	return v != (id == active)
}

// Less returns a < b, or a <= b if the mutation is active.
func Less[T cmp.Ordered](id int, a, b T) bool {
	note(id, a == b)
	return a < b || id == active && a == b
}

// LessEqual returns a <= b, or a < b if the mutation is active.
func LessEqual[T cmp.Ordered](id int, a, b T) bool {
	note(id, a == b)
	return a <= b && (id != active || a != b)
}

// Greater returns a > b, or a >= b if the mutation is active.
func Greater[T cmp.Ordered](id int, a, b T) bool {
	note(id, a == b)
	return a > b || id == active && a == b
}

// GreaterEqual returns a >= b, or a > b if the mutation is active.
func GreaterEqual[T cmp.Ordered](id int, a, b T) bool {
	note(id, a == b)
	return a >= b && (id != active || a != b)
}

// Integer is an operand of every arithmetic operator.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Number is an operand of every arithmetic operator but %.
type Number interface {
	Integer | ~float32 | ~float64
}

// Add returns a + b, or a - b if the mutation is active.
func Add[T Number](id int, a, b T) T {
	note(id, a+b != a-b)
	if id == active {
		return a - b
	}
	return a + b
}

// Sub returns a - b, or a + b if the mutation is active.
func Sub[T Number](id int, a, b T) T {
	note(id, a-b != a+b)
	if id == active {
		return a + b
	}
	return a - b
}

// Mul returns a * b, or a / b if the mutation is active.
func Mul[T Number](id int, a, b T) T {
	note(id, b == 0 || a*b != a/b)
	if id == active {
		return a / b
	}
	return a * b
}

// Quo returns a / b, or a * b if the mutation is active.
func Quo[T Number](id int, a, b T) T {
	note(id, b == 0 || a/b != a*b)
	if id == active {
		return a * b
	}
	return a / b
}

// Rem returns a % b, or a * b if the mutation is active.
func Rem[T Integer](id int, a, b T) T {
	note(id, b == 0 || a%b != a*b)
	if id == active {
		return a * b
	}
	return a % b
}
