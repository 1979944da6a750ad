package nodes

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"sluice/e2e"
)

// TestBackupOfNodes makes a backup of two nodes under load into another prefix of their bucket,
// restores it to a folder, and restores a backup of that folder to PostgreSQL and a bucket.
func TestBackupOfNodes(t *testing.T) {
	t.Parallel()
	c := e2e.NewCluster(t, e2e.Options{})
	c.Start(2)
	diarists := e2e.NewDiarists(t, e2e.Seed(t), c.Views(t))
	diarists.Begin()
	place := fmt.Sprintf("s3://%s/backups?endpoint=http://%s&path-style=on", c.Objects.Bucket, c.Objects.Addr)
	var began time.Time
	for range 2 { // the second one with most objects in place
		began = time.Now()
		if r := e2e.StartBackup(t, c.Options.Wrapper, append([]string{place}, c.Places(c.Database)...)...).Wait(); r.Code != 0 {
			t.Fatalf("the backup: %+v", r)
		}
	}
	ended := time.Now()
	diarists.End()
	t.Logf("%d changes", diarists.Requests())
	folder := filepath.Join(t.TempDir(), "folder")
	e2e.Restored(t, c.Options.Wrapper, place, "--to", folder)
	e2e.CheckClean(t, nil, "--data", folder)
	restored := e2e.Start(t, e2e.Options{Data: folder})
	diarists.Verify(restored, began, ended)
	diarists.Verify(c.Nodes[0], ended, time.Now())
	e2e.CheckClean(t, c.Options.Wrapper, c.Places(c.Database)...)

	back := filepath.Join(t.TempDir(), "backups")
	if r := e2e.StartBackup(t, nil, back, "--data", folder).Wait(); r.Code != 0 {
		t.Fatalf("the backup of the folder: %+v", r)
	}
	other := e2e.NewCluster(t, e2e.Options{})
	meta, bytes := other.Places(other.Database)[1], other.Places(other.Database)[3]
	e2e.Restored(t, other.Options.Wrapper, back, "--to-meta", meta, "--to-bytes", bytes)
	e2e.CheckClean(t, other.Options.Wrapper, "--meta", meta, "--bytes", bytes)
	other.Start(2)
	for _, node := range other.Nodes {
		diarists.Verify(node, began, ended)
	}
}
