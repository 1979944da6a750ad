package faults

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/e2e"
	"sluice/test/testenv"
)

// checkedInstance is an instance with a server, and where its objects are.
type checkedInstance struct {
	*e2e.Server

	wrapper []string
	places  []string // flags
	objects string   // their folder
}

// TestCheckOfAFolder checks a data folder beside its server under load, with damage, and repairs
// it once the server has stopped.
func TestCheckOfAFolder(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Dirty: true})
	c := checkedInstance{s, nil, []string{"--data", s.Data}, s.Data}
	c.checks(t)
	if r := c.check(t, "--repair"); r.Code != 4 || r.Stdout != "" || !strings.Contains(r.Stderr, "is in use") {
		t.Errorf("a repair beside the server: %+v", r)
	}
	s.Stop()
	e2e.Execute(t, s.Data, `UPDATE account_sums SET blobs = blobs + 1`)
	c.repairs(t)
}

// TestCheckOfNodes does it on PostgreSQL and a bucket, and repairs beside the nodes.
func TestCheckOfNodes(t *testing.T) {
	t.Parallel()
	nodes := e2e.NewCluster(t, e2e.Options{Dirty: true})
	nodes.Start(2)
	c := checkedInstance{nodes.Nodes[0], nodes.Options.Wrapper, nodes.Places(nodes.Database), nodes.Objects.Folder()}
	c.checks(t)
	testenv.OK(t, nodes.Database.Exec(`UPDATE account_sums SET blobs = blobs + 1; INSERT INTO account_deltas (account, blobs, bytes) VALUES ('team', 1, 1)`))
	diarists := e2e.NewDiarists(t, e2e.Seed(t), nodes.Views(t))
	diarists.Begin()
	c.repairs(t)
	diarists.End()
	diarists.Verify(c.Server, time.Now(), time.Now())
}

// check runs sluice check on the instance.
func (c checkedInstance) check(t *testing.T, flags ...string) e2e.Result {
	t.Helper()
	return e2e.Wrapped(t, c.wrapper, append(append([]string{"check"}, c.places...), flags...)...)
}

// printed is the output of check --json.
type printed struct {
	Found       int64                         `json:"found"`
	Findings    []struct{ Kind, Text string } `json:"findings"`
	Orphans     int64                         `json:"orphans"`
	Repaired    []string                      `json:"repaired"`
	NotRepaired []string                      `json:"notRepaired"`
	Failed      []string                      `json:"failed"`
}

func (c checkedInstance) printed(t *testing.T, code int, flags ...string) (p printed) {
	t.Helper()
	r := c.check(t, append(flags, "--json")...)
	if err := json.Unmarshal([]byte(r.Stdout), &p); err != nil || r.Code != code || strings.Count(r.Stdout, "\n") != 1 || strings.Contains(r.Stderr, "objects: ") {
		t.Errorf("check %q: %+v, %v; want exit code %d", flags, r, err, code)
	}
	return p
}

// reports ends the test unless a check with these flags has this exit code and prints all phrases.
func (c checkedInstance) reports(t *testing.T, code int, flags []string, phrases ...string) {
	t.Helper()
	r := c.check(t, flags...)
	for _, phrase := range phrases {
		if r.Code != code || !strings.Contains(r.Stdout, phrase) {
			t.Fatalf("check %q: %+v; want exit code %d and %q", flags, r, code, phrase)
		}
	}
}

// checks runs checks under load, and then plants a byte that is flipped, an object that is lost and
// an orphan.
func (c checkedInstance) checks(t *testing.T) {
	t.Helper()
	const flipped, lost = 70_001, 80_002
	for name, size := range map[string]int{"flipped": flipped, "lost": lost, "whole": 60_000} {
		c.Must(204, "PUT", e2e.BlobTarget("team", name), e2e.Content(1, size))
	}
	diarists := e2e.NewDiarists(t, e2e.Seed(t), []*e2e.Server{c.Server})
	diarists.Begin()
	for range 3 {
		if p := c.printed(t, 0, "--read-bytes"); p.Found+p.Orphans > 0 || len(p.Failed) > 0 {
			t.Errorf("under load: %+v", p)
		}
	}
	diarists.End()

	c.reports(t, 0, nil, "Checked: ", "Not checked: the bytes of the objects", "No damage was found.\n")
	if r := c.check(t, "--read-bytes"); r.Stderr != "" || r.Code != 0 {
		t.Errorf("without a terminal: %+v", r)
	}

	name := c.object(t, flipped)
	text := testenv.Must(os.ReadFile(name))(t)
	text[flipped/2] ^= 8
	testenv.OK(t, os.WriteFile(name, text, 0o600))
	c.reports(t, 0, nil, "No damage was found.\n")
	c.reports(t, 6, []string{"--read-bytes"}, "object: object "+filepath.Base(name), `blob: blob "team/flipped" cannot be read as a whole`)
	name = c.object(t, lost)
	testenv.OK(t, os.Remove(name))
	c.reports(t, 6, nil, "object: object "+filepath.Base(name)+" of 80002 bytes", "is missing", `blob: blob "team/lost" cannot be read as a whole`)
	c.plantOrphan(t)
	if p := c.printed(t, 6, "--read-bytes"); p.Found != 4 || p.Orphans != 1 || p.Findings[0].Kind != "object" || len(p.Failed)+len(p.Repaired)+len(p.NotRepaired) > 0 {
		t.Errorf("in JSON: %+v", p)
	}
}

// repairs deletes the orphan and corrects the counts that the caller has damaged. The rest stays.
func (c checkedInstance) repairs(t *testing.T) {
	t.Helper()
	p := c.printed(t, 6, "--repair", "--read-bytes")
	all := strings.Join(p.Repaired, "\n")
	if p.Found != 4 || p.Orphans != 0 || len(p.Failed)+len(p.NotRepaired) > 0 || !strings.Contains(all, `account "team": `) || !strings.Contains(all, "1 were deleted") {
		t.Errorf("a repair: %+v", p)
	}
	if p := c.printed(t, 6, "--repair", "--read-bytes"); p.Found != 4 || len(p.Repaired)+len(p.NotRepaired) > 0 {
		t.Errorf("a second repair: %+v", p)
	}
}

// object returns the file with the only object that has this size.
func (c checkedInstance) object(t *testing.T, size int64) (name string) {
	t.Helper()
	testenv.OK(t, filepath.WalkDir(c.objects, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Size() == size {
			name = path
		}
		return nil
	}))
	if name == "" {
		t.Fatalf("there is no object of %d bytes", size)
	}
	return name
}

// plantOrphan stores an object beside another, as old as a sweep requires.
func (c checkedInstance) plantOrphan(t *testing.T) {
	t.Helper()
	beside := c.object(t, 60_000)
	old := time.Now().Add(-blob.OrphanAge - time.Minute)
	name := string(bytestore.NewName(old))
	// A folder's name begins the names in it; a bucket has no folders.
	for shard := filepath.Base(filepath.Dir(beside)); len(shard) == 2 && !strings.HasPrefix(name, shard); {
		name = string(bytestore.NewName(old))
	}
	testenv.OK(t, os.WriteFile(filepath.Join(filepath.Dir(beside), name), []byte("orphan"), 0o600))
}
