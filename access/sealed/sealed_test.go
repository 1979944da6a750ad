package sealed_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"sluice/access/sealed"
	"sluice/test/testenv"
)

var first, second = strings.Repeat("01", 32), strings.Repeat("ab", 32)

// box returns a box with master keys.
func box(t testing.TB, masters ...string) *sealed.Box {
	t.Helper()
	return testenv.Must(sealed.Parse([]byte(strings.Join(masters, "\n") + "\n")))(t)
}

func TestSecretsAreSealed(t *testing.T) {
	b := box(t, first)
	one, two := b.Seal("owner", "the secret"), b.Seal("owner", "the secret")
	if bytes.Contains(one, []byte("secret")) || bytes.Equal(one, two) {
		t.Errorf("sealed twice: %q and %q", one, two)
	}
	testenv.Equal(t, testenv.Must(b.Open("owner", one))(t), "the secret", "the opened secret")
	testenv.Equal(t, testenv.Must(b.Open("owner", b.Seal("owner", "")))(t), "", "nothing, sealed")
	_, err := b.Open("another", one)
	testenv.Is(t, err, sealed.ErrDamaged, "another owner's secret")
	_, err = box(t, second).Open("owner", one)
	testenv.Is(t, err, sealed.ErrUnknownMaster, "without the master key")
	for i := range one {
		for _, damaged := range [][]byte{one[:i], append(bytes.Clone(one[:i]), append([]byte{one[i] ^ 1}, one[i+1:]...)...)} {
			if text, err := b.Open("owner", damaged); err == nil || text != "" {
				t.Errorf("damaged at byte %d: %q, %v", i, text, err)
			}
		}
	}
}

// TestMasterKeysAreRotated: a new master key seals, and the old one opens until it is removed.
func TestMasterKeysAreRotated(t *testing.T) {
	old := box(t, first).Seal("owner", "x")
	rotated := box(t, second, "", first)
	testenv.Equal(t, testenv.Must(rotated.Open("owner", old))(t), "x", "the secret that the old key has sealed")
	testenv.Equal(t, rotated.Current(old), false, "the old key seals")
	fresh := rotated.Seal("owner", "x")
	testenv.Equal(t, rotated.Current(fresh), true, "the new key seals")
	testenv.Equal(t, testenv.Must(box(t, second).Open("owner", fresh))(t), "x", "without the old key")
	testenv.Equal(t, box(t, first).Marks() == box(t, second).Marks(), false, "two keys have the same mark")
	if marks := rotated.Marks(); strings.Contains(marks, "01010101") || strings.Count(marks, ",") != 1 {
		t.Errorf("the marks are %s", marks)
	}
}

func TestFilesThatHaveNoKeys(t *testing.T) {
	for _, text := range []string{"", "\n\n", "short", strings.Repeat("0", 63), strings.Repeat("0", 66), strings.Repeat("g", 64), first + "\nx", strings.Repeat(first+"\n", 17)} {
		_, err := sealed.Parse([]byte(text))
		testenv.Is(t, err, sealed.ErrKeys, "%.20q", text)
	}
}

// FuzzOpen opens damaged secrets, and other owners' secrets: it never returns one.
func FuzzOpen(f *testing.F) {
	b := box(f, first)
	right := b.Seal("owner", "x")
	f.Add("owner", right)
	f.Add("", []byte{1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, owner string, text []byte) {
		got, err := b.Open(owner, text)
		genuine := owner == "owner" && bytes.Equal(text, right)
		if (err == nil) != genuine || err != nil && !errors.Is(err, sealed.ErrDamaged) && !errors.Is(err, sealed.ErrUnknownMaster) {
			t.Errorf("%q of %q: %q, %v", text, owner, got, err)
		}
	})
}
