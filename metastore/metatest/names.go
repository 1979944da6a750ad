package metatest

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var nameChecks = []dbtest.Check{
	check("names/bytes", nameBytes),
	check("names/long", nameLong),
}

// nameBytes uses every byte value in names and accounts.
func nameBytes(p *probe) {
	names := []string{"\x00", "\x00\x00", "a\x00", "a\x00b", "a", "ä", "a\u0308", "A", "a ", " a", "\xff\xff"}
	for c := range 256 {
		names = append(names, string([]byte{'n', byte(c)}))
	}
	sort.Strings(names)
	for _, n := range names {
		p.Put("account", n)
		p.Put(n, "name")
	}
	p.Equal(p.names("account"), names, "names in byte order")
	for _, n := range names {
		b, err := p.Store.Blob(p.Ctx, "account", n)
		p.OK(err, "blob %q", n)
		p.Must(b.Name == n, "blob %q is called %q", n, b.Name)
		p.Equal(p.names(n), []string{"name"}, "names of account %q", n)
	}
}

// nameLong uses names of up to 3,072 bytes that are not compressible and have a common prefix, in
// an account with a name as long as permitted.
func nameLong(p *probe) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.UintN(256))
		}
		return string(b)
	}
	account, head := random(66), random(2000)
	names := []string{"", head[:1999], head, head + "\x00", head + "\x00\x00", head + "\xff", random(3072), random(3072)}
	for range 30 {
		names = append(names, head+random(1072))
	}
	for _, n := range []int{1, 2, 500, 1071} {
		names = append(names, head+random(n), head[:1999]+random(n), head[:2000-n]+random(2*n))
	}
	deep := head + random(1000)
	for range 5 {
		names = append(names, deep+random(72))
	}
	sort.Strings(names)
	want := map[string]metastore.ContentID{}
	for _, i := range rnd.Perm(len(names)) {
		b, _ := p.Put(account, names[i])
		want[names[i]] = b.Content
	}
	p.Equal(p.names(account), names, "long names in byte order")
	for limit := 1; limit <= len(names)+1; limit++ {
		p.comparePages(names, metastore.ListQuery{Account: account, Limit: limit})
	}
	for _, after := range []string{head[:1000], head, head + "\x01", deep, strings.Repeat("\xff", 4000), random(5000)} {
		p.comparePages(names, metastore.ListQuery{Account: account, After: after, Limit: 3})
		p.comparePages(names, metastore.ListQuery{Account: account, Prefix: after, Limit: 3})
		p.comparePages(names, metastore.ListQuery{Account: account, Prefix: head[:100], Delimiter: after[len(after)-1:], Limit: 3})
	}
	for _, n := range names {
		b := dbtest.Value(p.Store.Blob(p.Ctx, account, n))
		p.Must(b.Name == n && b.Content == want[n], "a long name returned another blob")
	}
	// Deleting and replacing one must keep those with a common prefix.
	for i, n := range names {
		if i%3 == 0 {
			id, had, err := dbtest.Remove(p.Ctx, p.Store, account, n, nil)
			p.OK(err, "delete")
			p.Must(had && id == want[n], "delete of a long name deleted another blob")
			delete(want, n)
		}
	}
	for _, n := range names {
		b, err := p.Store.Blob(p.Ctx, account, n)
		if id, ok := want[n]; !ok {
			p.Is(err, database.ErrNotFound, "deleted long name")
		} else {
			p.OK(err, "long name next to a deleted one")
			p.Must(b.Content == id, "content of a long name")
		}
	}
	for n := range want {
		p.Put(account, n)
	}
	p.Must(len(p.Garbage()) == len(names), "%d contents are garbage after replacing and deleting %d names", len(p.Garbage()), len(names))
	p.Is(dbtest.Error(p.Store.Blob(p.Ctx, account, fmt.Sprint(head, "?"))), database.ErrNotFound, "name with a common prefix only")
}
