package tiny

import (
	"fmt"
	"testing"
)

func TestSign(t *testing.T) {
	for n, want := range map[int]int{-2: -1, 0: 0, 2: 1} {
		if got := Sign(n); got != want {
			t.Errorf("%d: %d", n, got)
		}
	}
}

func TestLonger(t *testing.T) {
	if !Longer("ab", "a") || Longer("a", "ab") {
		t.Error("wrong")
	}
}

func TestClamp(t *testing.T) {
	for _, n := range []int{7, 8, 9} {
		if got := Clamp(n); got != min(n, 8) {
			t.Errorf("%d: %d", n, got)
		}
	}
}

func TestMax(t *testing.T) {
	if Max(1, 2) != 2 || Max("b", "a") != "b" || Max(1.5, 1.5) != 1.5 {
		t.Error("wrong")
	}
}

func TestSum(t *testing.T) {
	if got := Sum([]uint8{200, 57}); got != 1 {
		t.Error(got)
	}
}

func TestCountdown(t *testing.T) {
	if got := Countdown(3); got != 3 {
		t.Error(got)
	}
}

func TestEither(t *testing.T) {
	if !Either(true, false, nil) || Either(true, true, map[string]int{}) || Either(false, false, map[string]int{}) || !Either(false, true, map[string]int{"y": 1}) {
		t.Error("wrong")
	}
}

func TestBits(t *testing.T) {
	if Bits(3) != 3 || Bits(4) != 15 {
		t.Error("wrong")
	}
}

func ExampleJoin() {
	fmt.Println(Join("a", "b"))
	// Output: ab
}
