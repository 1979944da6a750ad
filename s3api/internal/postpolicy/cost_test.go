package postpolicy

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// TestFormsAreBounded measures the memory that the largest forms take before their
// signature is known, and with a policy that is accepted: it is bounded whatever their shape.
// Invariant 75.
func TestFormsAreBounded(t *testing.T) {
	const most = 2 << 20
	key := field{"key", "k"}
	variables := func(n int) string { return strings.Repeat(filenameVariable, n) }
	longFields := func(n int) (fields []field) {
		for i := range n {
			fields = append(fields, field{fmt.Sprint("x-amz-meta-", i), strings.Repeat("a", mostFieldBytes/n-16)})
		}
		return fields
	}
	spread := []field{key}
	for i := range 90 {
		spread = append(spread, field{fmt.Sprint("f", i), variables(20)})
	}
	for _, test := range []struct {
		name     string
		filename string
		fields   []field
		header   string // of a part before all fields
	}{
		{"expansions in one field", strings.Repeat("n", 40<<10), []field{{"key", variables(1800)}}, ""},
		{"expansions in all fields", strings.Repeat("n", 20<<10), spread, ""},
		{"expansions of a name of no length", "", []field{{"key", "k" + variables(1800)}}, ""},
		{"long name", strings.Repeat("n", 60<<10), []field{key}, ""},
		{"name of folders", strings.Repeat(`\`, 30<<10), []field{key}, ""},
		{"fields", "a", append(longFields(90), key), ""},
		{"the same name", "a", []field{{strings.Repeat("\x01", 15<<10), ""}, {strings.Repeat("\x01", 15<<10), ""}}, ""},
		{"headers", "a", []field{key}, strings.Repeat("a:\r\n", 15<<10)},
		{"headers with names", "a", []field{key}, manyLines("h%x:\r\n", 7000)},
		{"parameters", "a", []field{key}, "Content-Disposition: form-data" + manyLines(";p%x=1", 6000) + "\r\n"},
		{"continued parameters", "a", []field{key}, "Content-Disposition: form-data" + manyLines(";p*%d=1", 6000) + "\r\n"},
		{"policy with conditions", "a", signed(strings.Repeat(`,{"key":"k"}`, 1100), key), ""},
		{"policy with lists", "a", signed(strings.Repeat(`,["eq","$key","k"]`, 700), key), ""},
		{"policy with fields", "a", signed(`,{`+strings.TrimPrefix(manyLines(`,"f%d":""`, 1000), ",")+`}`, key), ""},
		{"deep policy", "a", signed(`,["eq","$key",`+strings.Repeat("[", 6000)+strings.Repeat("]", 6000)+`]`, key), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			body, contentType := formOf(t, test.filename, test.fields...)
			if test.header != "" {
				boundary, _, _ := bytes.Cut(body, []byte("\r\n"))
				body = []byte(string(boundary) + "\r\n" + test.header + "\r\n\r\n" + string(body))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			form, err := Read(bytes.NewReader(body), contentType)
			if err == nil {
				_, err = form.Check(bucket, now)
			}
			runtime.ReadMemStats(&after)
			taken := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes of form took %d: %.100v", len(body), taken, err)
			if taken > most {
				t.Errorf("%d bytes of form took %d, want at most %d: %.100v", len(body), taken, most, err)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// manyLines returns n lines, each with its number.
func manyLines(format string, n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, format, i)
	}
	return lines.String()
}

// TestLongestExpansion: values may have the bound's bytes with the file's name in them, and not one
// more.
// Invariant 75.
func TestLongestExpansion(t *testing.T) {
	for longer, want := range []error{nil, ErrTooLong} {
		name := strings.Repeat("n", 1000)
		rest := strings.Repeat("r", mostFieldBytes-2*len(name)-1+longer)
		u, err := upload(t, name, field{"key", "k"}, field{"a", "${filename}" + rest + "${filename}"})
		testenv.Is(t, err, want, "%d bytes more than the bound", longer)
		testenv.Equal(t, u.Key, map[bool]string{true: "k"}[want == nil], "the key")
	}
	u, err := upload(t, "n", field{"key", "dir/${filename}"})
	testenv.OK(t, err)
	testenv.Equal(t, u.Key, "dir/n", "the key")
}
