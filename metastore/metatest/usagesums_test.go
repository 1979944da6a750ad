package metatest_test

import (
	"testing"

	"sluice/database/dbtest"
)

func TestBrokenSumsAreCaught(t *testing.T) {
	catch(t, []dbtest.Mutant{
		{Name: "adds up usage twice", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `SELECT 1`, `UPDATE usage_sums SET bytes = 2 * bytes`)
		}, Caught: []string{"usage/many-rows"}},
		{Name: "forgets the names", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return counts{h, path, `UPDATE usage SET names = 0`}
		}, Caught: []string{"usage/objects"}},
		{Name: "forgets the objects", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return counts{h, path, `UPDATE usage SET objects = 0`}
		}, Caught: []string{"usage/objects"}},
		{Name: "counts an overwritten blob twice", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return counts{h, path, `UPDATE usage SET objects = 1 WHERE objects = 0 AND bytes > 0`}
		}, Caught: []string{"usage/objects"}},
		{Name: "forgets the channels", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return countsChannels{h, path, `UPDATE usage SET channels = 0`}
		}, Caught: []string{"usage/channels"}},
		{Name: "counts a repeated open", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return countsRepeats{h, path}
		}, Caught: []string{"usage/channels"}},
		{Name: "forgets the garbage", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `UPDATE usage SET retained = 0`, `SELECT 1`)
		}, Caught: []string{"usage/retained", "model/history"}},
		{Name: "releases no garbage", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dropsUncounted{h, path}
		}, Caught: []string{"usage/retained", "model/history"}},
		{Name: "keeps the parts of ended uploads", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return keepsParts{h, path}
		}, Caught: []string{"uploads/outcome"}},
		{Name: "forgets the sums", Break: func(h dbtest.Handle, path string) dbtest.Handle {
			return dbtest.AroundPurge(h, path, `DELETE FROM usage_sums`, `SELECT 1`)
		}, Caught: []string{"usage/many-rows"}},
	})
}
