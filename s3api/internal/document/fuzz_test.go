package document

import (
	"encoding/xml"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/test/testenv"
)

// FuzzDecode checks that the decoders return a value within the bounds, or ErrMalformed.
func FuzzDecode(f *testing.F) {
	for _, content := range []string{`<Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>`, `<Object><Key>k</Key></Object>`, `<LocationConstraint>a</LocationConstraint>`} {
		for _, root := range []string{"CompleteMultipartUpload", "Delete", "CreateBucketConfiguration"} {
			f.Add([]byte(`<?xml version="1.0"?><` + root + ` xmlns="` + namespace + `">` + content + `</` + root + `>`))
		}
	}
	f.Add([]byte(corsOf(corsRule)))
	f.Add([]byte(`<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>`))
	f.Add([]byte(`<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`))
	f.Add([]byte(`<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>`))
	f.Add([]byte(`<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2030-01-01T00:00:00Z</RetainUntilDate></Retention>`))
	f.Add([]byte(`<LegalHold><Status>ON</Status></LegalHold>`))
	f.Add([]byte(lifecycleOf(everyElement)))
	f.Add([]byte(`<!DOCTYPE a [<!ENTITY b "c">]><Delete><Object><Key>&b;</Key></Object></Delete>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		parts, err := completeOf(body)
		if err == nil && (len(parts) < 1 || len(parts) > MostParts) || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%d parts, error %v", len(parts), err)
		}
		for _, part := range parts {
			if part.Number < 1 || part.Number > MostParts {
				t.Errorf("part %d", part.Number)
			}
		}
		d, err := deleteOf(body)
		if err == nil && (len(d.Objects) < 1 || len(d.Objects) > MostDeletes) || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("%d keys, error %v", len(d.Objects), err)
		}
		for _, o := range d.Objects {
			if o.Key == "" || !utf8.ValidString(o.Key) {
				t.Errorf("key %q", o.Key)
			}
		}
		if c, err := DecodeCORS(body); err == nil && (len(c.Rules) < 1 || len(c.Rules) > MostCORSRules) || err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrCORS) {
			t.Errorf("%d rules, error %v", len(c.Rules), err)
		}
		if _, err := DecodePublicAccessBlock(body); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
		if status, _, err := DecodeVersioning(body); err != nil && !errors.Is(err, ErrMalformed) || err == nil && status != "" && status != "Enabled" && status != "Suspended" {
			t.Errorf("%q, error %v", status, err)
		}
		if mode, period, err := DecodeObjectLock(body); err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrPeriod) || (mode == "") != (period == 0) {
			t.Errorf("%q %v, error %v", mode, period, err)
		}
		if mode, until, err := DecodeRetention(body); err != nil && !errors.Is(err, ErrMalformed) || (mode == "") != until.IsZero() {
			t.Errorf("%q until %v, error %v", mode, until, err)
		}
		if _, err := DecodeLegalHold(body); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
		rules, err := DecodeLifecycle(body)
		if err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrLifecycle) && !errors.Is(err, ErrTransition) {
			t.Error(err)
		}
		if err == nil {
			if again, err := DecodeLifecycle(Encode(Lifecycle(rules))); err != nil || !reflect.DeepEqual(again, rules) {
				t.Errorf("the rules %+v are read as %+v: %v", rules, again, err)
			}
		}
		if _, err := DecodeCreateBucket(body); err != nil && !errors.Is(err, ErrMalformed) {
			t.Error(err)
		}
	})
}

// FuzzNames checks that a listing gives every key back, as it is if XML can hold it, and with
// EncodingURL in any case.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a b", "a+b/ü", "%", "\x00\uffff", "<&>'\"\r\n\t", " ", "//../"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !utf8.ValidString(name) {
			return
		}
		plain, err := readBack(t, ListBucketResultV2{Page: Page{Contents: []Object{{Key: Name(name)}}}})
		if heldAll := strings.IndexFunc(name, func(r rune) bool { return !held(r) }) < 0; heldAll != (err == nil) || heldAll && plain != name {
			t.Errorf("%q was read as %q: %v", name, plain, err)
		}
		encoded, err := readBack(t, ListBucketResultV2{Page: Page{EncodingType: EncodingURL, Contents: []Object{{Key: Name(name)}}}})
		testenv.OK(t, err)
		if got, err := url.QueryUnescape(encoded); err != nil || got != name {
			t.Errorf("%q was written as %q and read as %q: %v", name, encoded, got, err)
		}
	})
}

// readBack returns a listing's key as a client reads it.
func readBack(t *testing.T, r any) (string, error) {
	t.Helper()
	var read struct {
		Contents []struct{ Key string }
	}
	if err := xml.Unmarshal(Encode(r), &read); err != nil {
		return "", err
	}
	testenv.Equal(t, len(read.Contents), 1, "keys")
	return read.Contents[0].Key, nil
}
