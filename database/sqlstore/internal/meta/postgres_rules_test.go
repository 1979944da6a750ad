package meta

import (
	"errors"
	"sync"
	"testing"
	"time"

	"sluice/access/actions"
	"sluice/database/sqlstore/internal/enginetest"
	"sluice/metastore"
	"sluice/test/testenv"
)

// TestRuleSparesANewBlobPostgres replaces a blob after a run has found it for a rule, and before
// the run has locked its name. The rule is not about the new blob, which stays.
func TestRuleSparesANewBlobPostgres(t *testing.T) {
	s, _ := openPostgres(t)
	old := metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(time.Now()), Metadata: metastore.TagsProperty + "class&old\n"}
	testenv.Must(s.CommitBlob(t.Context(), old, nil, nil))(t)
	testenv.Must(s.SetRules(t.Context(), "a", func(rules *[]metastore.Rule) (*actions.Act, error) {
		*rules = []metastore.Rule{{ID: "old", Tags: map[string]string{"class": "old"}, ExpireOn: time.Unix(0, 0)}}
		return nil, nil
	}))(t)
	held, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 2)
	hold := sync.OnceFunc(func() { close(held) })
	replacement := metastore.Blob{Account: "a", Name: "n", Content: metastore.NewContentID(time.Now())}
	go func() {
		_, err := s.CommitBlob(t.Context(), replacement, nil, func(*metastore.Blob) error {
			hold()
			<-release
			return nil
		})
		ended <- err
	}()
	<-held
	go func() {
		removed, _, err := s.ApplyRules(t.Context(), 10)
		if err == nil && removed > 0 {
			err = errors.New("the run removed a blob")
		}
		ended <- err
	}()
	enginetest.AwaitLock(t, s.db) // the run waits for the name
	close(release)
	testenv.Check(t, errors.Join(<-ended, <-ended))
	if b, err := s.Blob(t.Context(), "a", "n"); err != nil || b.Content != replacement.Content {
		t.Errorf("%+v, %v, want the new blob", b, err)
	}
}
