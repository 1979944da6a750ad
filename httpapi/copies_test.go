package httpapi

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/access"
	"sluice/access/keys"
	"sluice/checksum"
	"sluice/database"
	"sluice/database/whole"
	"sluice/metastore"
	"sluice/test/testenv"
	"sluice/wire"
)

// Bodies of requests to copy and to move a blob to another account.
const (
	copyToTheirs = `{"copyTo": {"account": "theirs", "blobName": "b"}}`
	moveToTheirs = `{"moveTo": {"account": "theirs", "blobName": "b"}}`
	copyHere     = `{"copyTo": {"blobName": "b"}}`
	moveHere     = `{"moveTo": {"blobName": "b"}}`
)

// store stores an account's blob with a key for everything, and returns its path and ETag.
func (h *hosted) store(t *testing.T, account, name, body string, headers ...string) (path, etag string) {
	t.Helper()
	_, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeWrite}})
	path = "/v1/blobs/" + account + "/" + name
	res, _ := h.want(t, 204, "PUT", path, body, append(keyHeader(secret), headers...)...)
	return path, res.Header.Get("ETag")
}

// TestRightsOfCopies tries to copy and move blobs between accounts with keys of all kinds, for each
// kind of reads.
// Invariant 32.
func TestRightsOfCopies(t *testing.T) {
	const read, write = access.ScopeRead, access.ScopeWrite
	for _, reads := range []access.Reads{access.ReadsPublic, access.ReadsKey, access.ReadsPaid} {
		h := newHosted(t, reads, write)
		for _, test := range []struct {
			name     string
			scopes   []access.Scope
			accounts []string
			body     string
			code     wire.Code // "": it is allowed
		}{
			{"copy by a reader", []access.Scope{read}, nil, copyHere, wire.CodeScopeMissing},
			{"copy by a reader and writer", []access.Scope{read, write}, nil, copyToTheirs, ""},
			{"copy by a writer", []access.Scope{write}, nil, copyHere, wire.CodeScopeMissing},
			{"copy for another account", []access.Scope{read, write}, []string{ours}, copyToTheirs, wire.CodeAccountForbidden},
			{"copy from another account", []access.Scope{read, write}, []string{"theirs"}, copyToTheirs, wire.CodeAccountForbidden},
			{"move by a reader", []access.Scope{read}, nil, moveHere, wire.CodeScopeMissing},
			{"rename by a writer", []access.Scope{write}, nil, moveHere, ""},
			{"move by a writer", []access.Scope{write}, nil, moveToTheirs, wire.CodeScopeMissing},
			{"move by a reader and writer", []access.Scope{read, write}, nil, moveToTheirs, ""},
			{"move to another account", []access.Scope{read, write}, []string{ours}, moveToTheirs, wire.CodeAccountForbidden},
			{"move from another account", []access.Scope{read, write}, []string{"theirs"}, moveToTheirs, wire.CodeAccountForbidden},
		} {
			code := test.code
			if reads == access.ReadsPublic && slices.Contains([]string{"copy by a writer", "copy from another account", "move by a writer"}, test.name) {
				code = "" // everyone may read the source
			}
			path, _ := h.store(t, ours, "a", "the source of copies and moves")
			_, secret := h.key(t, access.NewKey{Scopes: test.scopes, Accounts: test.accounts})
			// Neither the source nor its conditions decide before the key.
			if code != "" {
				h.refused(t, 403, code, "POST", path, test.body, keyHeader(secret)...)
				h.refused(t, 403, code, "POST", path+"-absent", test.body, append(keyHeader(secret), "If-Match", `"x"`)...)
				continue
			}
			if res, body := h.do(t, "POST", path, test.body, keyHeader(secret)...); res.StatusCode != 200 {
				t.Errorf("%s with %s reads: %d %s", test.name, reads, res.StatusCode, body)
			}
		}
		h.refused(t, 401, wire.CodeCredentialRequired, "POST", "/v1/blobs/ours/a", "no JSON")
		h.refused(t, 400, wire.CodeBadAccount, "POST", "/v1/blobs/NO/a", copyHere)
	}
}

// TestCopiesDiscloseNothing checks that a key without the scope read, which may move a blob, learns
// nothing about its content from the responses.
// Invariant 33.
func TestCopiesDiscloseNothing(t *testing.T) {
	for _, reads := range []access.Reads{access.ReadsPublic, access.ReadsKey, access.ReadsPaid} {
		h := newHosted(t, reads, access.ScopeWrite)
		_, reader := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}})
		for body, size := range map[string]string{"tiny": "tiny", strings.Repeat("x", 17): "larger"} {
			path, etag := h.store(t, ours, "a", body, "Blob-Meta-Color", "red", "Content-Type", "text/x-test")
			res, text := h.want(t, 200, "POST", path, moveHere, h.right.headers...)
			got := decodedAs[wire.CopiedBlob](t, text)
			want := wire.CopiedBlob{Account: ours, Blob: wire.Blob{
				Name: "b", Size: int64(len(body)), LastModified: got.LastModified, ETag: etag, ContentType: "text/x-test", Metadata: map[string]string{"color": "red"},
			}}
			switch {
			case reads == access.ReadsKey:
				want.ETag, want.ContentType, want.Metadata = "", "", nil
			case reads == access.ReadsPaid && size == "tiny":
				want.ETag = ""
			}
			testenv.Equal(t, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want), "%s reads, a %s blob", reads, size)
			testenv.Equal(t, res.Header.Get("ETag"), want.ETag, "the header ETag with %s reads, a %s blob", reads, size)

			path, etag = h.store(t, ours, "a", body)
			conditions := append(slices.Clone(h.right.headers), "If-Match", etag)
			if reads == access.ReadsPaid && size == "tiny" {
				h.refused(t, 403, wire.CodeScopeMissing, "POST", path, moveHere, conditions...)
				h.want(t, 204, "DELETE", path, "", h.right.headers...)
				// The destination has the ETag.
				h.refused(t, 404, wire.CodeBlobNotFound, "POST", path, moveHere, conditions...)
				continue
			}
			h.want(t, 200, "POST", path, moveHere, conditions...)
			h.want(t, 200, "POST", path, moveHere, conditions...)
		}
		path, etag := h.store(t, ours, "a", "tiny")
		res, _ := h.want(t, 200, "POST", path, moveHere, append(keyHeader(reader), "If-Match", etag)...)
		testenv.Equal(t, res.Header.Get("ETag"), etag, "ETag for a reader with %s reads", reads)
	}
}

// TestQuotaOfCopies checks how much quota copies and moves need, and that the books agree.
// Invariant 40.
func TestQuotaOfCopies(t *testing.T) {
	const size = 20_000
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	body := strings.Repeat("x", size)
	// Two blobs, and 10 bytes more for a longer name.
	quota := 2*(size+metastore.Charge("a", "")) + 10
	key, auth := h.limited(t, access.ScopeWrite, keys.Limits{StoredBytes: quota})
	used := func(want int64) {
		t.Helper()
		u := testenv.Must(h.meta.Usage(context.Background(), key.Group))(t)
		testenv.Equal(t, u.Stored(), want, "stored bytes")
	}
	to := func(member, name string) string { return fmt.Sprintf(`{%q: {"blobName": %q}}`, member, name) }
	const path = "/v1/blobs/ours/"
	one := size + metastore.Charge("a", "")

	h.want(t, 204, "PUT", path+"a", body, auth...)
	h.want(t, 200, "POST", path+"a", to("copyTo", "b"), auth...)
	used(2 * one)
	h.refused(t, 403, wire.CodeQuotaExceeded, "POST", path+"a", to("copyTo", "c"), auth...)
	h.refused(t, 403, wire.CodeQuotaExceeded, "POST", path+"b", to("moveTo", "b2345678901+"), auth...)
	h.want(t, 200, "POST", path+"b", to("moveTo", "b234567890+"), auth...)
	used(2*one + 10)
	h.want(t, 200, "POST", path+"b234567890+", to("moveTo", "a"), auth...) // over the other blob
	used(one)

	// A blob for which another group, or nobody, is charged.
	h.store(t, ours, "foreign", body)
	h.want(t, 200, "POST", path+"foreign", to("copyTo", "b"), auth...)
	h.refused(t, 403, wire.CodeQuotaExceeded, "POST", path+"foreign", to("moveTo", "c"), auth...)
	h.want(t, 204, "DELETE", path+"b", "", auth...)
	h.want(t, 200, "POST", path+"foreign", to("moveTo", "c"), auth...)
	used(2 * one)
	h.want(t, 200, "POST", path+"c", to("moveTo", "c"), h.right.headers...) // nothing changes, also not who is charged
	used(2 * one)
	h.want(t, 200, "POST", path+"c", to("moveTo", "d"), h.right.headers...)
	used(one)
}

// TestRecordOfMoveNeedsQuota checks that a move with an Idempotency-Key needs occupied bytes for
// its record, and that a repeated one needs nothing.
func TestRecordOfMoveNeedsQuota(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	occupied := 2*metastore.Charge("a", "") + metastore.RowCharge + 1000
	_, auth := h.limited(t, access.ScopeWrite, keys.Limits{OccupiedBytes: occupied})
	const path = "/v1/blobs/ours/a"
	keyed := func(key string) []string { return append(slices.Clone(auth), wire.HeaderIdempotencyKey, key) }
	h.want(t, 204, "PUT", path, "", auth...)
	_, first := h.want(t, 200, "POST", path, moveHere, keyed("1")...)
	h.want(t, 204, "PUT", path, "", auth...) // which leaves less than a record needs
	h.refused(t, 403, wire.CodeQuotaExceeded, "POST", path, moveHere, keyed("2")...)
	_, again := h.want(t, 200, "POST", path, moveHere, keyed("1")...)
	if a, b := decodedAs[wire.CopiedBlob](t, first), decodedAs[wire.CopiedBlob](t, again); a.ETag != b.ETag || !a.LastModified.Equal(b.LastModified) {
		t.Errorf("the repeated move is %s, want %s", again, first)
	}
	h.want(t, 200, "GET", path, "")
	h.refused(t, 422, wire.CodeIdempotencyReuse, "POST", path, moveElsewhere, keyed("1")...)
}

// TestRecordsAreBounded sends requests that are recorded and change little or nothing, each with a
// new key: the records count to the quota, and when it is full, nothing more is recorded.
// Invariant 40.
func TestRecordsAreBounded(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	const records = 5
	const path = "/v1/blobs/ours/"
	exhaust := func(group string, ask func(n int) int) {
		t.Helper()
		var statuses []int
		for n := range 3 * records {
			statuses = append(statuses, ask(n))
		}
		want := append(slices.Repeat([]int{200}, records), slices.Repeat([]int{403}, 2*records)...)
		testenv.Equal(t, fmt.Sprint(statuses), fmt.Sprint(want), "the statuses")
		testenv.Equal(t, testenv.Must(h.meta.Usage(t.Context(), group))(t).Retained, records*metastore.RowCharge, "the bytes of records")
	}
	for name, move := range map[string]struct{ from, to, tag string }{
		"onto itself": {"a", "a", ""}, "of no source": {"none", "a", checksum.ETag(0, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			key, auth := h.limited(t, access.ScopeWrite, keys.Limits{OccupiedBytes: metastore.Charge("a", "") + records*metastore.RowCharge})
			h.want(t, 204, "PUT", path+"a", "", auth...)
			exhaust(key.Group, func(n int) int {
				fields := append(slices.Clone(auth), wire.HeaderIdempotencyKey, fmt.Sprint(n))
				if move.tag != "" {
					fields = append(fields, "If-Match", move.tag)
				}
				res, _ := h.do(t, "POST", path+move.from, fmt.Sprintf(`{"moveTo": {"blobName": %q}}`, move.to), fields...)
				return res.StatusCode
			})
			h.want(t, 204, "DELETE", path+"a", "", auth...)
		})
	}
	t.Run("deposits", func(t *testing.T) {
		const channels = "/v1/sessions/micropaymentchannels"
		key, auth := h.limited(t, access.ScopeChannels, keys.Limits{OccupiedBytes: records * metastore.RowCharge})
		_, made := h.want(t, 201, "POST", channels, fmt.Sprintf(`{"userIdentity":%q,"paymentChannelId":"1"}`, payer), auth...)
		id := decodedAs[wire.Channel](t, made).ChannelID
		exhaust(key.Group, func(n int) int {
			res, _ := h.do(t, "POST", channels+"/"+id+"/deposit", `{"amount": 1}`, append(slices.Clone(auth), wire.HeaderIdempotencyKey, fmt.Sprint(n))...)
			return res.StatusCode
		})
	})
}

const moveElsewhere = `{"moveTo": {"blobName": "c"}}`

// watchedMeta calls a function once before it looks up a blob.
type watchedMeta struct {
	whole.Database
	then func()
}

func (m *watchedMeta) Blob(ctx context.Context, account, name string) (metastore.Blob, error) {
	if then := m.then; then != nil {
		m.then = nil
		then()
	}
	return m.Database.Blob(ctx, account, name)
}

// TestKeyIsCheckedBeforeATransfer changes a key after its rights were checked and before the blob
// is copied or moved: its rights to the source count as well.
// Invariant 34.
func TestKeyIsCheckedBeforeATransfer(t *testing.T) {
	m := &watchedMeta{}
	h := newHostedOver(t, func(d whole.Database) whole.Database { m.Database = d; return m }, access.ReadsKey, access.ScopeWrite)
	both, only := []string{ours, "theirs"}, []keys.Grant{{Scopes: []string{"read", "write"}, Accounts: []string{"theirs"}}}
	for _, body := range []string{copyToTheirs, moveToTheirs} {
		path, _ := h.store(t, ours, "a", "content")
		key, secret := h.key(t, access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite}, Accounts: both})
		m.then = func() {
			testenv.Check(t, testenv.Error(access.Update(t.Context(), h.meta, key.ID, access.KeyChange{Grants: only})))
		}
		h.refused(t, 403, wire.CodeAccountForbidden, "POST", path, body, keyHeader(secret)...)
		if m.then != nil {
			t.Fatal("no blob was looked up")
		}
		h.refused(t, 412, wire.CodePreconditionFailed, "DELETE", "/v1/blobs/theirs/b", "", append(keyHeader(secret), "If-Match", "*")...)
		h.want(t, 204, "DELETE", path, "", append(slices.Clone(h.right.headers), "If-Match", "*")...)
	}
}

// TestTransferInDoubt checks which copies and moves with an unknown outcome may be sent again.
func TestTransferInDoubt(t *testing.T) {
	s, store, _ := newFailing(t)
	for i, test := range []struct {
		body          string
		keyed, tagged bool
		again         bool
	}{
		{copyHere, false, false, true},
		{moveHere, false, false, false},
		{moveHere, true, false, true},
		{moveHere, false, true, true},
	} {
		const path = "/v1/blobs/0x1/a"
		res, _ := s.want(t, 204, "PUT", path, "content")
		var header []string
		if test.keyed {
			header = append(header, wire.HeaderIdempotencyKey, strconv.Itoa(i))
		}
		if test.tagged {
			header = append(header, "If-Match", res.Header.Get("ETag"))
		}
		store.fail(fmt.Errorf("commit: %w", database.ErrUnknownOutcome))
		_, body := s.refused(t, 503, wire.CodeOutcomeUnknown, "POST", path, test.body, header...)
		if p := decodedAs[wire.Problem](t, body); p.Retryable == nil || *p.Retryable != test.again {
			t.Errorf("%+v: %s", test, body)
		}
		store.fail(nil)
		if test.again {
			s.want(t, 200, "POST", path, test.body, header...)
		}
		if _, got := s.want(t, 200, "GET", "/v1/blobs/0x1/b", ""); got != "content" {
			t.Errorf("%+v: the destination has %q", test, got)
		}
	}
}

// TestPagesMayCopy checks that a page of another origin may send the request and read its response.
func TestPagesMayCopy(t *testing.T) {
	h := newHosted(t, access.ReadsPublic, access.ScopeWrite)
	res, _ := h.want(t, 204, "OPTIONS", "/v1/blobs/ours/a", "", "Origin", "https://example.org", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization,content-type,if-match,idempotency-key")
	if got := res.Header.Get("Access-Control-Allow-Methods"); !strings.Contains(got, "POST") {
		t.Errorf("allowed methods: %s", got)
	}
}
