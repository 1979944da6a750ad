package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// DamagedBlobs returns the targets of all blobs and kept versions that sluice check --recorded
// lists, sorted. The flags name the metadata.
func DamagedBlobs(t testing.TB, meta ...string) (targets []string) {
	t.Helper()
	r := SluiceRuns(t, append([]string{"check", "--recorded", "--json"}, meta...)...)
	if (r.Code == 0) != (r.Stdout == "") || r.Code != 0 && r.Code != 6 {
		t.Fatalf("damaged: %+v", r)
	}
	for line := range strings.Lines(r.Stdout) {
		var one struct {
			Blobs []struct{ Account, Name, Version string }
		}
		testenv.OK(t, json.Unmarshal([]byte(line), &one))
		for _, b := range one.Blobs {
			targets = append(targets, VersionTarget(b.Account, b.Version, b.Name))
		}
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}

// WantDamaged fails the test, which goes on, unless each target is answered with 500 damaged.
func (s *Server) WantDamaged(targets ...string) {
	s.T.Helper()
	for _, target := range targets {
		if r := s.Must(500, "GET", target, nil); !strings.Contains(string(r.Body), `"damaged"`) {
			s.T.Errorf("GET %s: %s", target, r.Body)
		}
	}
}

// UntilDamaged waits until sluice check --recorded lists these targets, and no other.
func UntilDamaged(t testing.TB, targets []string, meta ...string) {
	t.Helper()
	want := slices.Sorted(slices.Values(targets))
	var got []string
	await(t, func() bool {
		got = DamagedBlobs(t, meta...)
		return slices.Equal(got, want)
	}, func() string { return "damaged are " + strings.Join(got, " ") + ", want " + strings.Join(want, " ") })
}
