package s3

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"sluice/e2e"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// transfers are commands that store the folder tree, and commands that check that all of it is
// stored.
var transfers = []struct{ name, before, store, check string }{
	{"aws", "aws s3 mb s3://team", "aws s3 sync --quiet tree s3://team/tree", "aws s3 sync --quiet s3://team/tree back && diff -r tree back"},
	{"rclone", "rclone -q mkdir :s3:team", "rclone -q --retries 1 sync tree :s3:team/tree", "rclone -q check --download tree :s3:team/tree 2>&1"},
	{"restic", "restic -q init", "restic -q backup tree",
		"restic -q check --read-data && restic -q restore latest --target back && diff -r tree back/tree"},
}

// fill writes the folder tree: small files, and one that is sent in parts.
func (c *client) fill() {
	for i := range 40 {
		c.write(fmt.Sprintf("tree/%d/%d", i%5, i), bytesOf(20_000*(i%7), uint64(i)))
	}
	c.write("tree/big", bytesOf(24<<20, 99))
}

// complete repeats a command until it succeeds.
func (c *client) complete(command string) {
	c.t.Helper()
	var last string
	for deadline := time.Now().Add(e2e.Patience); time.Now().Before(deadline); {
		out, err := c.try(command)
		if err == nil {
			return
		}
		last = out
	}
	c.t.Fatalf("%s does not succeed: %s", command, last)
}

// TestServerIsKilled kills the server while a client stores a folder, and starts it again. The same
// command then completes, and nothing is lost.
// Invariant 188.
func TestServerIsKilled(t *testing.T) {
	for _, transfer := range transfers {
		t.Run(transfer.name, func(t *testing.T) {
			t.Parallel()
			addr := testenv.ReserveAddress(t)
			s := e2e.Start(t, e2e.Options{Addr: testenv.ReserveAddress(t), Dirty: true, Flags: []string{"--s3-addr", addr}})
			c := newClient(t, s)
			c.fill()
			if transfer.before != "" {
				c.sh(transfer.before)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if out, err := c.try(transfer.store); err != nil {
					t.Logf("while the server was killed: %v: %s", err, out) // the command is repeated
				}
			}()
			begun, running := len(keysOf(t, s)), true
			var acknowledged []string
			for running && len(acknowledged) <= begun+2 {
				select {
				case <-ended:
					running = false
				default:
				}
				acknowledged = keysOf(t, s)
			}
			s.Kill()
			s.Launch()
			kept := keysOf(t, s)
			for _, key := range acknowledged {
				if !slices.Contains(kept, key) && !strings.Contains(key, "/locks/") { // which restic removes
					t.Errorf("%s is lost", key)
				}
			}
			<-ended
			c.complete(transfer.store)
			if transfer.name == "restic" {
				c.sh("restic -q unlock --remove-all") // of the backup that was interrupted
			}
			c.sh(transfer.check)
		})
	}
}

// keysOf returns the keys of all objects in the bucket team.
func keysOf(t *testing.T, s *e2e.Server) (keys []string) {
	t.Helper()
	for o := range minioClient(t, s, "any", "any").ListObjects(t.Context(), "team", minio.ListObjectsOptions{Recursive: true}) {
		if minio.ToErrorResponse(o.Err).Code == minio.NoSuchBucket {
			return nil
		}
		testenv.OK(t, o.Err)
		keys = append(keys, o.Key)
	}
	return keys
}

// TestNetworkIsCut cuts all connections several times while a client stores a folder.
// Invariant 188.
func TestNetworkIsCut(t *testing.T) {
	for _, transfer := range transfers {
		t.Run(transfer.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			network := fault.Before(t, strings.TrimPrefix(s.S3, "http://"))
			sent, cuts := int64(0), []int64{1 << 20, 3 << 20, 8 << 20, 15 << 20} // by bytes to the server
			network.Disturb(func(p fault.Piece) fault.Trouble {
				if !p.Answer {
					sent += p.Len
				}
				if len(cuts) > 0 && sent >= cuts[0] {
					cuts = cuts[1:]
					network.Cut()
				}
				return fault.Trouble{}
			})
			direct, cut := newClient(t, s), newClient(t, &e2e.Server{S3: "http://" + network.Address()})
			cut.dir = direct.dir
			direct.fill()
			if transfer.before != "" {
				direct.sh(transfer.before)
			}
			cut.complete(transfer.store)
			network.Disturb(nil)
			testenv.Equal(t, len(cuts), 0, "cuts that were not made")
			if transfer.name == "restic" {
				direct.sh("restic -q unlock --remove-all")
			}
			direct.sh(transfer.check)
		})
	}
}

// TestDiskIsFull fills the disk by a client. Objects that it stored before remain, and when there
// is space again the same command completes.
// Invariant 188.
func TestDiskIsFull(t *testing.T) {
	testenv.Require(t, testenv.RootMount)
	for _, transfer := range transfers {
		t.Run(transfer.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			testenv.OK(t, testenv.MountTmpfs(dir, "96m"))
			t.Cleanup(func() { testenv.Check(t, testenv.Unmount(dir)) })
			s := e2e.Start(t, e2e.Options{Data: filepath.Join(dir, "data"), Flags: []string{"--s3-addr", "localhost:0"}})
			c := newClient(t, s)
			c.fill()
			if transfer.before != "" {
				c.sh(transfer.before)
			}
			ballast := filepath.Join(dir, "ballast")
			testenv.OK(t, fallocate(ballast, 70<<20))
			before := keysOf(t, s)
			// restic tries for 15 minutes.
			if out, err := c.try(`timeout --signal=INT 3 bash -c "$(declare -f aws); ` + transfer.store + `"`); err == nil {
				t.Errorf("it succeeds on a full disk: %s", out)
			}
			for _, key := range before {
				if !slices.Contains(keysOf(t, s), key) && !strings.Contains(key, "/locks/") {
					t.Errorf("%s is lost", key)
				}
			}
			testenv.OK(t, os.Remove(ballast))
			if transfer.name == "restic" {
				c.sh("restic -q unlock --remove-all")
			}
			c.complete(transfer.store)
			c.sh(transfer.check)
		})
	}
}

// fallocate creates a file that takes space.
func fallocate(name string, size int) error {
	return os.WriteFile(name, make([]byte, size), 0o600)
}
