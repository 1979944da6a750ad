package metatest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"sluice/database"
	"sluice/database/dbtest"
	"sluice/metastore"
)

var listChecks = []dbtest.Check{
	check("list/pages", listPages),
	check("list/random", listRandom),
	check("list/accounts", listAccounts),
	check("list/entries", listEntries),
	check("list/expired", listExpired),
	check("list/bytes", listBytes),
}

// listed is a page's list, without the metadata.
type listed struct {
	names, groups []string
	next          string
}

// modelPage is a page's list by definition, of blobs without other texts than their names.
func modelPage(names []string, q metastore.ListQuery) listed {
	var entries []string
	group := map[string]bool{}
	for _, n := range names {
		if !strings.HasPrefix(n, q.Prefix) {
			continue
		}
		if q.Delimiter != "" {
			if before, _, found := strings.Cut(n[len(q.Prefix):], q.Delimiter); found {
				n = q.Prefix + before + q.Delimiter
				group[n] = true
			}
		}
		if q.After == "" || n > q.After {
			entries = append(entries, n)
		}
	}
	slices.Sort(entries)
	entries = slices.Compact(entries)
	var page listed
	fits, size := 0, int64(0)
	for _, e := range entries {
		size += int64(len(e)) + database.EntryCharge
		if fits == q.Limit || fits > 0 && q.Bytes > 0 && size > q.Bytes {
			page.next = entries[fits-1]
			break
		}
		fits++
	}
	entries = entries[:fits]
	for _, e := range entries {
		if group[e] {
			page.groups = append(page.groups, e)
		} else {
			page.names = append(page.names, e)
		}
	}
	return page
}

func (p *probe) page(q metastore.ListQuery) listed {
	got, err := p.Store.ListBlobs(p.Ctx, q)
	p.OK(err, "list %+v", q)
	page := listed{groups: slices.Clone(got.Prefixes), next: got.Next}
	for _, b := range got.Blobs {
		p.Must(b.Account == q.Account, "a blob of account %q in the list of %q", b.Account, q.Account)
		page.names = append(page.names, b.Name)
	}
	return page
}

// comparePages reads a listing page by page and compares it with the model.
func (p *probe) comparePages(names []string, q metastore.ListQuery) {
	for {
		got, want := p.page(q), modelPage(names, q)
		p.Must(slices.Equal(got.names, want.names) && slices.Equal(got.groups, want.groups) && got.next == want.next,
			"page of prefix %q delimiter %q after %q limit %d:\n got %q\nwant %q", q.Prefix, q.Delimiter, q.After, q.Limit, got, want)
		if got.next == "" {
			return
		}
		q.After = got.next
	}
}

var listedNames = []string{
	"a", "a/", "a/a", "a/b", "a/b/", "a/b/c", "a/b/d", "a//", "a//b", "a0", "aa", "aa/x", "ab", "b/1", "b/2", "b/3/4", "b/3/5", "b0/",
	"c\x00", "c\x00d", "c", "c/\xff", "c/\xff/", "c/\xff/1", "d\xff", "d\xff\xff", "d\xff\xff/1", "e--f", "e--f--g", "e-f", "e--h", "z",
	"\xff", "\xff\xff", "\xff\xff/", "\xff\xff\xff\xff", "/", "//", "/a",
}

func listPages(p *probe) {
	names := slices.Clone(listedNames)
	for _, n := range names {
		p.Put("acc", n)
	}
	slices.Sort(names)
	for _, prefix := range []string{"", "a", "a/", "c\x00", "d\xff", "\xff\xff", "e-", "zz"} {
		for _, delimiter := range []string{"", "/", "//", "--", "\xff", "b/"} {
			q := metastore.ListQuery{Account: "acc", Prefix: prefix, Delimiter: delimiter}
			for _, limit := range []int{1, 3, 7, 1000} {
				q.Limit = limit
				p.comparePages(names, q)
			}
			q.Bytes = 3*database.EntryCharge + 5 // three short entries
			p.comparePages(names, q)
			q.Bytes = 0
			// The loop reads one page from before, at and after every name.
			for _, n := range names {
				for _, after := range []string{n, n + "zz"} {
					q.After, q.Limit = after, 2
					got, want := p.page(q), modelPage(names, q)
					p.Must(slices.Equal(got.names, want.names) && slices.Equal(got.groups, want.groups) && got.next == want.next,
						"page of prefix %q delimiter %q after %q:\n got %q\nwant %q", prefix, delimiter, after, got, want)
				}
			}
		}
	}
}

// listRandom lists random names from a small alphabet with random queries. Some names are about as
// long as a name that is stored in two parts.
func listRandom(p *probe) {
	rnd := rand.New(rand.NewPCG(3, 4))
	const alphabet = "ab/\x00\xff"
	base := strings.Repeat("x", 1998)
	word := func(n int) string {
		var s strings.Builder
		if rnd.UintN(4) == 0 {
			s.WriteString(base)
		}
		for range rnd.IntN(n) {
			s.WriteByte(alphabet[rnd.IntN(len(alphabet))])
		}
		return s.String()
	}
	set := map[string]bool{}
	for len(set) < 150 {
		set[word(7)] = true
	}
	var names []string
	for n := range set {
		names = append(names, n)
		p.Put("acc", n)
	}
	slices.Sort(names)
	for range 150 {
		q := metastore.ListQuery{Account: "acc", Prefix: word(3), After: word(5), Limit: 1 + rnd.IntN(20)}
		if rnd.UintN(2) == 0 {
			q.Prefix = ""
		}
		if rnd.UintN(3) > 0 {
			q.Delimiter = word(3)
		}
		if rnd.UintN(2) == 0 {
			q.Bytes = 1 + rnd.Int64N(5000)
		}
		p.comparePages(names, q)
	}
}

func listAccounts(p *probe) {
	for _, account := range []string{"a", "a\x00", "ab", "b", "", "\xff"} {
		p.Put(account, "1")
		p.Put(account, "2")
	}
	for _, account := range []string{"a", "a\x00", "ab", "b", "", "\xff"} {
		p.comparePages([]string{"1", "2"}, metastore.ListQuery{Account: account, Limit: 1})
	}
	p.comparePages(nil, metastore.ListQuery{Account: "c", Limit: 10})
}

// listEntries compares each entry's metadata with its blob's.
func listEntries(p *probe) {
	for i, n := range []string{"a", "b", strings.Repeat("c", 2500)} {
		var sha []byte
		if i == 1 {
			sha = []byte(strings.Repeat("s", 32))
		}
		dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{
			Account: "acc", Name: n, Content: p.Content(), Size: 9, CRC64: 1<<63 + uint64(i), SHA256: sha,
			ContentType: "t/" + n[:1], Expires: p.Clock.Now().Add(time.Hour),
		}, []metastore.Extent{p.Extent(0, 0, 9)}, nil))
		p.Clock.Advance(time.Second)
	}
	p.Begin("upload", "acc", "by-parts")
	p.part("upload", 0, 50)
	p.Complete("upload")
	page := dbtest.Value(p.Store.ListBlobs(p.Ctx, metastore.ListQuery{Account: "acc", Limit: 10}))
	p.Must(len(page.Blobs) == 4, "%d blobs listed", len(page.Blobs))
	for _, b := range page.Blobs {
		want := dbtest.Value(p.Store.Blob(p.Ctx, "acc", b.Name))
		p.Equal(b, want, "entry")
	}
}

func listExpired(p *probe) {
	var live []string
	for i := range 30 {
		b := metastore.Blob{Account: "acc", Name: string([]byte{'a' + byte(i%5), '/', 'a' + byte(i)}), Content: p.Content()}
		if i%5 == 2 || i%3 == 0 {
			b.Expires = p.Clock.Now().Add(time.Minute)
		} else {
			live = append(live, b.Name)
		}
		dbtest.Value(p.Store.CommitBlob(p.Ctx, b, nil, nil))
	}
	slices.Sort(live)
	p.Clock.Advance(time.Minute)
	for limit := 1; limit < 31; limit++ {
		p.comparePages(live, metastore.ListQuery{Account: "acc", Limit: limit})
		p.comparePages(live, metastore.ListQuery{Account: "acc", Delimiter: "/", Limit: limit})
	}
}

// listBytes compares a page's bound with the sum of its texts. Metadata counts only if it is on the
// page.
func listBytes(p *probe) {
	const count = 12
	size := func(i int) (name, contentType, metadata string) {
		return fmt.Sprintf("%02d", i) + strings.Repeat("n", i%3*1500), strings.Repeat("t", i%4*20), strings.Repeat("m", i%5*700)
	}
	for i := range count {
		name, contentType, metadata := size(i)
		dbtest.Value(p.Store.CommitBlob(p.Ctx, metastore.Blob{Account: "acc", Name: name, Content: p.Content(), ContentType: contentType, Metadata: metadata}, nil, nil))
	}
	for bytes := int64(1); bytes < 30_000; bytes += 97 {
		for _, withMetadata := range []bool{false, true} {
			q := metastore.ListQuery{Account: "acc", Limit: 8, Bytes: bytes, Metadata: withMetadata}
			for first := 0; first < count; {
				page := dbtest.Value(p.Store.ListBlobs(p.Ctx, q))
				want, sum := 0, int64(0)
				for i := first; i < count && want < q.Limit; i++ {
					name, contentType, metadata := size(i)
					sum += int64(len(name)+len(contentType)) + database.EntryCharge
					if withMetadata {
						sum += int64(len(metadata))
					}
					if want > 0 && sum > bytes {
						break
					}
					want++
				}
				p.Must(len(page.Blobs) == want, "a page of at most %d bytes from blob %d has %d blobs, want %d", bytes, first, len(page.Blobs), want)
				first += want
				next, _, _ := size(first - 1)
				if first == count {
					next = ""
				}
				p.Must(page.Next == next, "a page of at most %d bytes: next is %.4q, want %.4q", bytes, page.Next, next)
				q.After = page.Next
			}
		}
	}
}
