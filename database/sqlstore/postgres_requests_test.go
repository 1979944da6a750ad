package sqlstore

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/database/dbtest"
	"sluice/database/sqlstore/internal/pgproxy"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// TestPostgresRequests counts the requests that the most frequent operations make to the server: on
// a network each costs a round trip.
// Invariant 73.
func TestPostgresRequests(t *testing.T) {
	p := pgproxy.New(t, testenv.Postgres(t), func() fault.Kind { return fault.None })
	s := openNode(t, p.DSN+"&pool_max_conns=2")
	ctx := t.Context()
	blob := func(name string) error {
		b := metastore.Blob{Account: "a", Name: name, Content: metastore.NewContentID(time.Now()), Size: 3, Owner: "owner"}
		_, err := s.CommitBlob(ctx, b, []metastore.Extent{{Size: 3, Body: []byte("abc"), Blocks: []uint32{0x364b3fb7}}}, nil)
		return err
	}
	session := ledger.Session{ID: "session", Total: 1000, Left: 1000, Expires: time.Now().Add(time.Hour)}
	testenv.Must(s.CreateSession(ctx, session, nil))(t)
	channel := ledger.Channel{ID: "channel", Sender: "sender", Receiver: "receiver", Asset: "asset", Deposit: 1000, Expires: session.Expires}
	testenv.Must(s.OpenChannel(ctx, channel, nil))(t)
	payment := ledger.Offer{Payment: ledger.Payment{
		Sender: "sender", Receiver: "receiver", Asset: "asset", Proof: []byte("proof"), Expires: session.Expires,
	}, Policy: ledger.Policy{UnsettledLimit: 1000}}
	buy := func(of ledger.Session, refill bool) error {
		payment.Sequence++
		payment.Amount++
		_, err := s.Buy(ctx, ledger.Purchase{Offer: payment, Price: 1, Session: of, Refill: refill}, nil)
		return err
	}
	upload := metastore.Upload{ID: "upload", Account: "a", Name: "u", Content: metastore.NewContentID(time.Now()), PartSize: 1 << 20}
	testenv.Must(s.BeginUpload(ctx, upload))(t)
	const groups, longHead = 40, 2000     // bytes of a name that its row's key holds
	head := strings.Repeat("h", longHead) // half the groups begin behind it
	for i := range 2 * groups {
		b := metastore.Blob{Account: "grouped", Name: fmt.Sprintf("%s%02d/%d", head[:i/groups*longHead], i/2, i), Content: metastore.NewContentID(time.Now())}
		testenv.Must(s.CommitBlob(ctx, b, nil, nil))(t)
	}
	names := 0
	for _, name := range []string{"object", "moved", "to"} {
		putObject(t, s, "a", name, 5, time.Time{})
	}
	copies := func(from, to string) error {
		names++
		_, err := s.CopyBlob(ctx, metastore.Copy{
			From: metastore.BlobName{Account: "a", Name: from}, To: metastore.Blob{Account: "a", Name: fmt.Sprint(to, names), Owner: "owner"},
		})
		return err
	}
	for _, operation := range []struct {
		name string
		want int64
		do   func() error
	}{
		{"put a new blob", 4, func() error { names++; return blob(string(rune('a' + names))) }},
		{"replace a blob", 4, func() error { return blob("a") }},
		{"delete a blob", 4, func() error {
			if err := blob("z"); err != nil {
				return err
			}
			p.Requests.Store(0)
			_, _, err := dbtest.Remove(ctx, s, "a", "z", nil)
			return err
		}},
		{"copy an object", 5, func() error { return copies("object", "copy") }},
		{"copy an inline content", 6, func() error { return copies("a", "inline copy") }},
		{"move a blob", 5, func() error {
			names++
			from, to := metastore.BlobName{Account: "a", Name: "moved"}, metastore.BlobName{Account: "a", Name: "to"}
			if names%2 == 0 {
				from, to = to, from
			}
			_, err := s.MoveBlob(ctx, metastore.Move{From: from, To: to, Owner: "owner"})
			return err
		}},
		{"open a blob", 1, func() error { _, _, err := s.OpenBlob(ctx, "a", "a"); return err }},
		{"list names", 1, func() error { _, err := s.ListBlobs(ctx, metastore.ListQuery{Account: "a", Limit: 2}); return err }},
		{"list groups", 1, func() error { return listsGroups(s, groups) }},
		{"put a part", 5, func() error {
			names++
			return s.PutPart(ctx, "upload", metastore.Part{Index: names, Size: 3}, []metastore.Extent{{Part: names, Size: 3, Body: []byte("abc"), Blocks: []uint32{1}}})
		}},
		{"buy a session", 5, func() error {
			names++
			return buy(ledger.Session{ID: strconv.Itoa(names), Expires: session.Expires}, false)
		}},
		{"refill a session", 5, func() error { return buy(ledger.Session{ID: "session"}, true) }},
		{"renew a lease", 4, func() error { _, err := s.Lease(ctx, "lease", "holder", time.Minute); return err }},
		{"use a session", 3, func() error { _, err := s.UseSession(context.Background(), "session", 1, nil); return err }},
	} {
		least := int64(math.MaxInt64)
		for range 4 { // statements are prepared once, which costs requests, too, as do tasks in the background
			p.Requests.Store(0)
			testenv.OK(t, operation.do())
			least = min(least, p.Requests.Load())
		}
		testenv.Equal(t, least, operation.want, "requests to %s", operation.name)
	}
}

// listsGroups lists the account "grouped", which has this many groups of names.
func listsGroups(s *Store, groups int) error {
	page, err := s.ListBlobs(context.Background(), metastore.ListQuery{Account: "grouped", Delimiter: "/", Limit: 1000})
	if err == nil && len(page.Prefixes) != groups {
		err = fmt.Errorf("%d groups are listed, want %d", len(page.Prefixes), groups)
	}
	return err
}
