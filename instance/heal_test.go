package instance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"sluice/backup"
	"sluice/blob"
	"sluice/database"
	"sluice/history"
	"sluice/integrity"
	"sluice/metastore"
	"sluice/storage"
	"sluice/test/testenv"
)

// healed is an instance with small and large blobs, on either engine.
type healed struct {
	t      *testing.T
	at     Location
	place  string // for backups
	bodies map[string][]byte
	sql    func(statements string)
}

// onEngines calls test with an instance in a folder, and with one on PostgreSQL and S3.
func onEngines(t *testing.T, test func(h *healed)) {
	t.Run("folder", func(t *testing.T) {
		h := newHealed(t)
		h.place = testenv.MemoryDir(t)
		test(h)
	})
	t.Run("shared", func(t *testing.T) {
		at := inBucket(t, testenv.S3(t, testenv.S3Options{}))
		database := testenv.StartPostgres(t)
		h := newHealed(t)
		h.at.Meta, h.at.Bytes, h.place = database.DSN(), at("blobs"), at("backups")
		h.sql = func(statements string) {
			conn := testenv.Must(pgx.Connect(t.Context(), database.DSN()))(t)
			_, err := conn.Exec(t.Context(), strings.ReplaceAll(statements, " AS BLOB)", " AS BYTEA)"))
			testenv.OK(t, errors.Join(err, conn.Close(t.Context())))
		}
		test(h)
	})
}

// newHealed returns an instance in a folder.
func newHealed(t *testing.T) *healed {
	data := filepath.Join(testenv.MemoryDir(t), "data")
	return &healed{t: t, at: Location{Data: data}, bodies: map[string][]byte{}, sql: func(statements string) { bySQL(statements)(t, data) }}
}

// inBucket sets the credentials for a server, and returns a function that makes a DSN for a prefix
// in its bucket.
func inBucket(t *testing.T, objects *testenv.S3Server) func(prefix string) string {
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.S3AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.S3SecretKey)
	return func(prefix string) string {
		return fmt.Sprintf("s3://%s/%s?endpoint=http://%s&path-style=on", objects.Bucket, prefix, objects.Addr)
	}
}

// do calls work with the instance, which heals from a place, or from none.
func (h *healed) do(from string, work func(s *storage.Stores, blobs *blob.Service)) {
	h.t.Helper()
	s := testenv.Must(storage.Open(h.t.Context(), storage.Location(h.at), storage.Options{HealFrom: from}))(h.t)
	work(s, blob.New(s.Meta, s.Bytes, s.BlobOptions()))
	testenv.OK(h.t, s.Close())
}

// put stores a blob of so many bytes.
func (h *healed) put(blobs *blob.Service, name string, size int) {
	h.t.Helper()
	h.bodies[name] = bytes.Repeat([]byte(name+" "), size)[:size]
	testenv.Must(blobs.Put(h.t.Context(), blob.PutOptions{Account: "a", Name: name}, bytes.NewReader(h.bodies[name]), int64(size)))(h.t)
}

func (h *healed) backUp(place string) (BackupResult, error) {
	h.t.Helper()
	objects, closePlace, err := storage.OpenPlace(h.t.Context(), place, backup.RepositoryObject, true)
	testenv.OK(h.t, err)
	made, err := Backup(h.t.Context(), h.at, &backup.Repository{Bytes: objects}, BackupOptions{})
	testenv.OK(h.t, closePlace())
	return made, err
}

// content returns a blob's content id as SQL.
func (h *healed) content(blobs *blob.Service, name string) string {
	h.t.Helper()
	c := testenv.Must(blobs.Open(h.t.Context(), "a", name))(h.t)
	defer c.Close()
	if h.at.Meta == "" {
		return fmt.Sprintf("x'%x'", c.Content[:])
	}
	return fmt.Sprintf(`'\x%x'::bytea`, c.Content[:])
}

// wantRead fails the test, which goes on, unless the blob can be read, or is damaged.
func (h *healed) wantRead(blobs *blob.Service, name string, damaged bool) {
	h.t.Helper()
	c := testenv.Must(blobs.Open(h.t.Context(), "a", name))(h.t)
	defer c.Close()
	var got bytes.Buffer
	_, err := c.WriteRange(h.t.Context(), &got, 0, c.Size)
	if damaged {
		testenv.Is(h.t, err, integrity.ErrCorrupt, "read of %s", name)
		testenv.Equal(h.t, got.Len(), 0, "bytes of %s that were written", name)
		return
	}
	if err != nil || !bytes.Equal(got.Bytes(), h.bodies[name]) {
		h.t.Errorf("%s: read %d bytes, %v", name, got.Len(), err)
	}
}

func (h *healed) wantDamaged(s *storage.Stores, n int, when string) {
	h.t.Helper()
	list := testenv.Must(s.Meta.Damages(h.t.Context(), metastore.ExtentID{}, 100))(h.t)
	testenv.Equal(h.t, len(list), n, "damaged extents %s", when)
}

// TestHealFromABackup damages bodies in the database: with a flipped bit, another length, none, and
// in SQLite with values that are not bytes. A scrub finds all of them. The newest backup lacks
// some, because it was made when they were damaged already.
// Invariants 116, 118.
func TestHealFromABackup(t *testing.T) {
	onEngines(t, func(h *healed) {
		damage := map[string]string{
			"flipped": `UPDATE bodies SET body = CAST(CAST('x' AS BLOB) || substr(body, 2) AS BLOB) WHERE content = %s`,
			"shorter": `UPDATE bodies SET body = substr(body, 2) WHERE content = %s`,
			"missing": `DELETE FROM bodies WHERE content = %s`,
		}
		early := []string{"flipped"} // damaged before the second backup
		if h.at.Meta == "" {
			damage["text"] = `UPDATE bodies SET body = CAST(body AS TEXT) WHERE content = %s`
			damage["number"] = `UPDATE bodies SET body = 5 WHERE content = %s`
			early = append(early, "text", "number")
		}
		h.do(h.place, func(s *storage.Stores, blobs *blob.Service) {
			for name := range damage {
				h.put(blobs, name, 1000)
			}
			h.put(blobs, "intact", 100)
			h.put(blobs, "large", 3<<20)
			testenv.Must(h.backUp(h.place))(t)
			breaks := func(name string) { h.sql(fmt.Sprintf(damage[name], h.content(blobs, name))) }
			for _, name := range early {
				breaks(name)
			}
			made, err := h.backUp(h.place)
			testenv.Is(t, err, ErrIncomplete, "a backup of damaged bodies")
			testenv.Equal(t, len(made.Damaged), len(early), "the bodies that the second backup lacks")
			breaks("shorter")
			breaks("missing")

			testenv.Equal(t, testenv.Must(blobs.Scrub(t.Context()))(t), int64(len(h.bodies)), "extents that were checked")
			h.wantDamaged(s, len(damage), "after the scrub")
			for name := range h.bodies {
				_, is := damage[name]
				h.wantRead(blobs, name, is)
			}
			testenv.Equal(t, testenv.Must(blobs.Heal(t.Context()))(t), int64(len(damage)), "extents that were healed")
			h.wantDamaged(s, 0, "after the heal")
			for name := range h.bodies {
				h.wantRead(blobs, name, false)
			}
			testenv.Equal(t, len(testenv.Must(s.Meta.Audit(t.Context()))(t)), 0, "inconsistencies")
		})
	})
}

// TestDamagedRowIsNotHealed damages an inline extent's row, not the body: it stays listed.
// Invariant 118.
func TestDamagedRowIsNotHealed(t *testing.T) {
	onEngines(t, func(h *healed) {
		h.do(h.place, func(s *storage.Stores, blobs *blob.Service) {
			h.put(blobs, "name", 1000)
			testenv.Must(h.backUp(h.place))(t)
			h.sql(`UPDATE extents SET blocks = CAST('four' AS BLOB) WHERE content = ` + h.content(blobs, "name"))
			testenv.Must(blobs.Scrub(t.Context()))(t)
			h.wantDamaged(s, 1, "before the heal")
			healed, err := blobs.Heal(t.Context())
			testenv.Is(t, err, database.ErrDamagedRow, "a heal of a damaged row")
			testenv.Equal(t, healed, 0, "extents that were healed")
			h.wantDamaged(s, 1, "after the heal")
			page := testenv.Must(s.Meta.StoredExtents(t.Context(), metastore.ExtentID{}, 10))(t)
			testenv.Equal(t, bytes.Equal(page[0].Body, h.bodies["name"]), true, "whether the body is as it was")
		})
	})
}

// TestHealFromABucket heals from a bucket that is away at the start, comes back, is damaged itself,
// is not a backup, or is another instance's.
// Invariant 118.
func TestHealFromABucket(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	dsn := inBucket(t, server)
	h := newHealed(t)
	var id string
	h.do("", func(_ *storage.Stores, blobs *blob.Service) {
		h.put(blobs, "small", 1000)
		h.put(blobs, "large", 3<<20)
		id = h.content(blobs, "small")
	})
	testenv.Must(h.backUp(dsn("backups")))(t)
	other := newHealed(t)
	other.do("", func(_ *storage.Stores, blobs *blob.Service) { other.put(blobs, "small", 1000) })
	testenv.Must(other.backUp(dsn("foreign")))(t)
	nothing := filepath.Join(server.Folder(), "nothing")
	testenv.OK(t, os.Mkdir(nothing, 0o700))
	testenv.OK(t, os.WriteFile(filepath.Join(nothing, "3f-000000000000-0"), []byte("x"), 0o600))

	h.sql(`UPDATE bodies SET body = substr(body, 2) WHERE content = ` + id)
	object := objectFiles(t, h.at.Data)[0]
	flipMiddle(t, object)
	h.do("", func(s *storage.Stores, blobs *blob.Service) {
		testenv.Must(blobs.Scrub(t.Context()))(t)
		h.wantDamaged(s, 2, "after the scrub")
	})
	refused := func(s *storage.Stores, blobs *blob.Service, want error, text string) {
		t.Helper()
		n, err := blobs.Heal(t.Context())
		if n != 0 || err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("Heal = %d, %v, want %v with %q", n, err, want, text)
		}
		h.wantDamaged(s, 2, "after a refused heal")
	}
	h.do(dsn("nothing"), func(s *storage.Stores, blobs *blob.Service) {
		refused(s, blobs, nil, "neither backups (the object sluice-backups) nor a copy")
	})
	h.do(dsn("foreign"), func(s *storage.Stores, blobs *blob.Service) { refused(s, blobs, history.ErrForeignStore, "not of") })

	// The objects and packs are damaged in the bucket, and then as they were.
	folder := filepath.Join(server.Folder(), "backups")
	flipAll := func() {
		t.Helper()
		flipped := 0
		testenv.OK(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if name := d.Name(); err == nil && d.Type().IsRegular() && (strings.HasPrefix(name, "pack-") || name == filepath.Base(object)) {
				flipMiddle(t, path)
				flipped++
			}
			return err
		}))
		testenv.Equal(t, flipped, 2, "files that were changed")
	}
	flipAll()
	server.Stop()
	h.do(dsn("backups"), func(s *storage.Stores, blobs *blob.Service) {
		refused(s, blobs, nil, "--heal-from")
		server.Start()
		refused(s, blobs, integrity.ErrCorrupt, "damaged bytes too, and they are not used")
		refused(s, blobs, backup.ErrDamaged, "pack-")
		flipAll()
		testenv.Equal(t, testenv.Must(blobs.Heal(t.Context()))(t), 2, "extents that were healed")
		h.wantDamaged(s, 0, "after the heal")
		h.wantRead(blobs, "small", false)
		h.wantRead(blobs, "large", false)
	})
}
