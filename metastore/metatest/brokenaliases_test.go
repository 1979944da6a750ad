package metatest_test

import (
	"context"
	"testing"

	"sluice/database/dbtest"
	"sluice/metastore"
)

// TestBrokenAliasesAreCaught breaks a store's rows of aliases, and its order of uploads by name.
func TestBrokenAliasesAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "the last alias of a name counts", Break: dbtest.Broken[replacesAliases], Caught: []string{"aliases/set"}},
		{Name: "an alias hides an account's blobs", Schema: dbtest.On(`AFTER INSERT ON aliases`, `DELETE FROM blobs WHERE account = NEW.name`), Break: dbtest.Broken[ignoresBlobs], Caught: []string{"aliases/names-with-blobs"}},
		{Name: "aliases do not change the version", Schema: dbtest.On(`AFTER UPDATE ON aliases_version`, `UPDATE aliases_version SET version = 0`), Caught: []string{"aliases/version"}},
		{Name: "a repeated alias changes the version", Break: dbtest.Broken[renewsAliases], Caught: []string{"aliases/version"}},
		{Name: "lists uploads of a name by id", Break: dbtest.Broken[namesOnly], Caught: []string{"uploads/by-name"}},
	})
}

type replacesAliases struct{ dbtest.Correct }

func (s replacesAliases) SetAlias(ctx context.Context, a metastore.Alias) error {
	if err := s.Exec(ctx, `DELETE FROM aliases WHERE name = $1 AND account <> $2`, []byte(a.Name), []byte(a.Account)); err != nil {
		return err
	}
	return s.Correct.SetAlias(ctx, a)
}

type ignoresBlobs struct{ dbtest.Correct }

func (s ignoresBlobs) SetAlias(ctx context.Context, a metastore.Alias) error {
	return s.Exec(ctx, `INSERT OR IGNORE INTO aliases (name, account) VALUES ($1, $2)`, []byte(a.Name), []byte(a.Account))
}

type renewsAliases struct{ dbtest.Correct }

func (s renewsAliases) SetAlias(ctx context.Context, a metastore.Alias) error {
	if err := s.Exec(ctx, `DELETE FROM aliases WHERE name = $1 AND account = $2`, []byte(a.Name), []byte(a.Account)); err != nil {
		return err
	}
	return s.Correct.SetAlias(ctx, a)
}

// namesOnly begins after all uploads with a name.
type namesOnly struct{ dbtest.Correct }

func (s namesOnly) UploadsByName(ctx context.Context, q metastore.UploadsQuery) ([]metastore.Upload, bool, error) {
	q.AfterID = ""
	return s.Correct.UploadsByName(ctx, q)
}
