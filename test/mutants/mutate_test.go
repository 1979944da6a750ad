package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

const tiny = "test/mutants/testdata/tiny"

// TestMutateAll runs a package's mutations: some of each kind and each verdict. One of its
// survivors is not listed, and one of its listed ones is detected.
func TestMutateAll(t *testing.T) {
	t.Parallel()
	root := testenv.Must(testenv.Root())(t)
	name := filepath.Join(root, tiny, "tiny.go")
	before := testenv.Must(os.ReadFile(name))(t)
	known, err := parseSurvivors(strings.ReplaceAll(`
TINY|boundary|return len(a) > len(b)|reason
TINY|boundary|if n < width {|reason
TINY|boundary|if n > 0 {|reason
TINY|arithmetic|m["x"] += 3 * len(m)|reason
TINY|arithmetic|return mask / 1|reason
other/a.go|boundary|is of another package|reason
`, "TINY", tiny+"/tiny.go"))
	testenv.OK(t, err)
	var out strings.Builder
	err = mutator{root: root, workers: 2, spare: time.Second, out: &out}.mutateAll(t.Context(), []string{"./" + tiny}, known)
	if err == nil {
		t.Fatal("no error")
	}
	const wantOut = `timed out: TINY/tiny.go:51:4: arithmetic: -- becomes ++: n--
not covered: TINY/tiny.go:80:11: arithmetic: * becomes /: return n * 2
                     package  mutations  detected  timed out  listed  survive  not covered
  TINY         27        20          1       4        1            1
`
	if got := strings.ReplaceAll(out.String(), tiny, "TINY"); got != wantOut {
		t.Errorf("printed\n%s\nwant\n%s", got, wantOut)
	}
	const wantErr = `survives: TINY/tiny.go:34:7: boundary: >= becomes >: if a >= b {
TINY/tiny.go|boundary|if n > 0 { does not survive: remove it from survivors.txt`
	if got := strings.ReplaceAll(err.Error(), tiny, "TINY"); got != wantErr {
		t.Errorf("error\n%s\nwant\n%s", got, wantErr)
	}
	if after, err := os.ReadFile(name); err != nil || string(after) != string(before) {
		t.Errorf("the tree was changed (%v)", err)
	}
}

// TestInstrument checks the text of each kind of switch, and which operators have none.
func TestInstrument(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	p := testenv.Must(instrument(t.Context(), root, tiny))(t)
	text := string(p.files[filepath.Join(root, tiny, "tiny.go")])
	text = strings.ReplaceAll(text, switchesName+".", "")
	for _, want := range []string{
		`package tiny; import mutants_switches "sluice/test/mutants/switches"` + "\n",
		"const width = 2 * 4 ",
		"if Flip(0, Less(1, n , 0)) {",
		"for i := 0; Flip(10, Less(11, i , len(numbers))); i = Add(12, i, 1) {",
		"sum = Add(13, sum, numbers[i])",
		"n = Sub(15, n, 1)",
		`if Flip(17, Flip(17, Flip(18, Flip(18, a) && Flip(18, Flip(19, !b)))) || Flip(17, !(Flip(20, len(m) == 0)))) {`,
		`m["x"] = Add(21, m["x"], Mul(22, 3 , len(m)))`,
		"var mask uint64 = 1<<n - 1",
		`return a + b }`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	tree := testenv.Must(os.ReadFile(filepath.Join(root, tiny, "tiny.go")))(t)
	if strings.Count(text, "\n") != strings.Count(string(tree), "\n") {
		t.Error("lines were added or removed")
	}
}

// TestParseSurvivors checks that a list is either parsed whole or refused.
func TestParseSurvivors(t *testing.T) {
	list, err := parseSurvivors("// a comment\n\na/b.go|logical|if a || b {|because\n")
	if err != nil || len(list) != 1 || list[survivor{"a/b.go", logical, "if a || b {"}] != "because" {
		t.Errorf("%v, %v", list, err)
	}
	for _, bad := range []string{"a.go|logical|x|\n", "a.go|logical|x\n", "a.go|x\n", "a.go\n", "a|k|x|one\na|k|x|two\n"} {
		if list, err := parseSurvivors(bad); err == nil {
			t.Errorf("%q was parsed as %v", bad, list)
		}
	}
}
