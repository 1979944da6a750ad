package document

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// refused are roots that no decoder accepts, with %s for a document's right content and %n for
// its root's name.
var refused = map[string]string{
	"nothing":              ``,
	"text":                 `text`,
	"another root":         `<Other>%s</Other>`,
	"open":                 `<%n>%s`,
	"crossed":              `<%n><a><b></a></b>%s</%n>`,
	"two roots":            `<%n>%s</%n><%n>%s</%n>`,
	"text behind":          `<%n>%s</%n>x`,
	"entity behind":        `<%n>%s</%n>&x;`,
	"foreign namespace":    `<%n xmlns="http://example.com/">%s</%n>`,
	"foreign element":      `<%n><x:a xmlns:x="http://example.com/"/>%s</%n>`,
	"document type":        `<!DOCTYPE %n [<!ENTITY a "b">]><%n>%s</%n>`,
	"document type inside": `<%n><!DOCTYPE a>%s</%n>`,
	"document type behind": `<%n>%s</%n><!DOCTYPE a>`,
	"unknown entity":       `<%n><a>&a;</a>%s</%n>`,
	"instruction":          `<?style a?><%n>%s</%n>`,
	"another encoding":     `<?xml version="1.0" encoding="ISO-8859-1"?><%n>%s</%n>`,
	"XML 1.1":              `<?xml version="1.1"?><%n>%s</%n>`,
	"invalid UTF-8":        "<%n><a>\xff</a>%s</%n>",
	"control character":    "<%n><a>\x01</a>%s</%n>",
	"reference to none":    "<%n><a>&#x1;</a>%s</%n>",
	"too deep":             `<%n>` + strings.Repeat(`<a>`, mostDepth) + strings.Repeat(`</a>`, mostDepth) + `%s</%n>`,
	"too many":             `<%n>` + strings.Repeat(`<a/>`, mostElements) + `%s</%n>`,
}

// accepted are roots that all decoders accept.
var accepted = map[string]string{
	"plain":             `<%n>%s</%n>`,
	"declaration":       `<?xml version="1.0" encoding="UTF-8"?>` + "\n<%n>%s</%n>\n",
	"namespace":         `<%n xmlns="http://s3.amazonaws.com/doc/2006-03-01/">%s</%n>`,
	"prefixed":          `<s3:%n xmlns:s3="http://s3.amazonaws.com/doc/2006-03-01/">%s</s3:%n>`,
	"unknown elements":  `<%n><a><b>text</b></a>%s<c/></%n>`,
	"comments":          `<!-- a --><%n><!-- b -->%s</%n><!-- c -->`,
	"attributes":        `<%n a="b">%s</%n>`,
	"space around":      "\n <%n>\n%s\n</%n> \n",
	"five entities":     `<%n><a>&lt;&gt;&amp;&quot;&apos;</a>%s</%n>`,
	"character section": `<%n><a><![CDATA[<&]]></a>%s</%n>`,
}

// completeOf and deleteOf decode without a bound on memory.
func completeOf(body []byte) ([]CompletedPart, error) {
	return DecodeComplete(bytes.NewReader(body), func(int64) error { return nil })
}

func deleteOf(body []byte) (Delete, error) {
	return DecodeDelete(bytes.NewReader(body), func(int64) error { return nil })
}

// TestDecodersRefuse decodes each refused and accepted form with each decoder.
func TestDecodersRefuse(t *testing.T) {
	for root, decoder := range map[string]struct {
		content string
		decode  func([]byte) error
	}{
		"CompleteMultipartUpload":   {`<Part><PartNumber>1</PartNumber><ETag>e</ETag></Part>`, func(b []byte) error { return testenv.Error(completeOf(b)) }},
		"Delete":                    {`<Object><Key>k</Key></Object>`, func(b []byte) error { return testenv.Error(deleteOf(b)) }},
		"CreateBucketConfiguration": {`<LocationConstraint>us-west-2</LocationConstraint>`, func(b []byte) error { return testenv.Error(DecodeCreateBucket(b)) }},
	} {
		fill := func(form string) []byte {
			return []byte(strings.NewReplacer("%n", root, "%s", decoder.content).Replace(form))
		}
		for name, form := range refused {
			if name == "nothing" && root == "CreateBucketConfiguration" {
				continue // its body may be empty
			}
			testenv.Is(t, decoder.decode(fill(form)), ErrMalformed, "%s, %s", root, name)
		}
		for name, form := range accepted {
			testenv.Is(t, decoder.decode(fill(form)), nil, "%s, %s", root, name)
		}
	}
}

// TestDecodeComplete lists parts as clients send them.
func TestDecodeComplete(t *testing.T) {
	part := func(content string) string { return `<Part>` + content + `</Part>` }
	good := part(`<PartNumber>1</PartNumber><ETag>e</ETag>`)
	for _, test := range []struct {
		name, content string
		want          []CompletedPart
	}{
		{"one", good, []CompletedPart{{Number: 1, ETag: "e"}}},
		{"quotes", part(`<ETag>&quot;e&quot;</ETag><PartNumber>2</PartNumber>`), []CompletedPart{{Number: 2, ETag: "e"}}},
		{"no ETag", part(`<PartNumber>10000</PartNumber>`), nil},
		{"the last number", part(`<PartNumber>10000</PartNumber><ETag>e</ETag>`), []CompletedPart{{Number: 10000, ETag: "e"}}},
		{"checksum", part(`<PartNumber>1</PartNumber><ETag>e</ETag><ChecksumCRC32C>c</ChecksumCRC32C>`), []CompletedPart{{1, "e", Checksums{ChecksumCRC32C: "c"}}}},
		{"in another order", part(`<PartNumber>2</PartNumber><ETag>f</ETag>`) + good, []CompletedPart{{Number: 2, ETag: "f"}, {Number: 1, ETag: "e"}}},
		{"none", "", nil},
		{"no number", part(`<ETag>e</ETag>`), nil},
		{"number 0", part(`<PartNumber>0</PartNumber>`), nil},
		{"number 10001", part(`<PartNumber>10001</PartNumber>`), nil},
		{"negative", part(`<PartNumber>-1</PartNumber>`), nil},
		{"no integer", part(`<PartNumber>one</PartNumber>`), nil},
		{"two numbers", part(`<PartNumber>1</PartNumber><PartNumber>2</PartNumber>`), nil},
		{"two ETags", part(`<PartNumber>1</PartNumber><ETag>e</ETag><ETag>f</ETag>`), nil},
		{"too many", strings.Repeat(good, MostParts+1), nil},
	} {
		got, err := completeOf([]byte(`<CompleteMultipartUpload>` + test.content + `</CompleteMultipartUpload>`))
		if !reflect.DeepEqual(got, test.want) || (test.want == nil) != errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, %v", test.name, got, err)
		}
	}
}

// TestDecodeMost decodes the largest documents that S3 allows.
func TestDecodeMost(t *testing.T) {
	var parts, objects strings.Builder
	for i := range MostParts {
		fmt.Fprintf(&parts, `<Part><PartNumber>%d</PartNumber><ETag>"e"</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part>`, i+1)
	}
	for range MostDeletes {
		objects.WriteString(`<Object><Key>` + strings.Repeat("k", 1024) + `</Key><VersionId>null</VersionId></Object>`)
	}
	got := testenv.Must(completeOf([]byte(`<CompleteMultipartUpload>` + parts.String() + `</CompleteMultipartUpload>`)))(t)
	testenv.Equal(t, len(got), MostParts, "parts")
	deleted := testenv.Must(deleteOf([]byte(`<Delete>` + objects.String() + `</Delete>`)))(t)
	testenv.Equal(t, len(deleted.Objects), MostDeletes, "keys")
}

// TestDecodeDelete lists requests to delete that a client may send.
func TestDecodeDelete(t *testing.T) {
	one := `<Object><Key>k</Key></Object>`
	for _, test := range []struct {
		name, content string
		want          Delete
	}{
		{"one", one, Delete{Objects: []DeletedObject{{Key: "k"}}, Escaped: 1}},
		{"quiet", `<Quiet>true</Quiet>` + one, Delete{Quiet: true, Objects: []DeletedObject{{Key: "k"}}, Escaped: 1}},
		{"not quiet", one + `<Quiet> false </Quiet>`, Delete{Objects: []DeletedObject{{Key: "k"}}, Escaped: 1}},
		{"space in a key", `<Object><Key> k ` + "\n" + `</Key></Object>`, Delete{Objects: []DeletedObject{{Key: " k \n"}}, Escaped: len(" k &#xFFFF;")}},
		{"all", `<Object><Key>k</Key><VersionId>v</VersionId><ETag>"e"</ETag><Size>1</Size><LastModifiedTime>t</LastModifiedTime></Object>`,
			Delete{Objects: []DeletedObject{{"k", "v", `"e"`, "1", "t"}}, Escaped: 1}},
		{"none", ``, Delete{}},
		{"no key", `<Object><VersionId>v</VersionId></Object>`, Delete{}},
		{"empty key", `<Object><Key/></Object>`, Delete{}},
		{"two keys", `<Object><Key>k</Key><Key>l</Key></Object>`, Delete{}},
		{"two versions", `<Object><Key>k</Key><VersionId>v</VersionId><VersionId>w</VersionId></Object>`, Delete{}},
		{"quiet twice", `<Quiet>true</Quiet><Quiet>false</Quiet>` + one, Delete{}},
		{"neither quiet nor not", `<Quiet>maybe</Quiet>` + one, Delete{}},
		{"too many", strings.Repeat(one, MostDeletes+1), Delete{}},
	} {
		got, err := deleteOf([]byte(`<Delete>` + test.content + `</Delete>`))
		if !reflect.DeepEqual(got, test.want) || (test.want.Objects == nil) != errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, %v", test.name, got, err)
		}
	}
}

// TestDecodeCreateBucket lists configurations that a client may send for a new bucket.
func TestDecodeCreateBucket(t *testing.T) {
	for body, want := range map[string]string{
		"": "", " \n": "",
		`<CreateBucketConfiguration/>`: "",
		`<CreateBucketConfiguration><LocationConstraint/></CreateBucketConfiguration>`:                                                                              "",
		`<CreateBucketConfiguration><LocationConstraint> eu-west-1 </LocationConstraint></CreateBucketConfiguration>`:                                               "eu-west-1",
		`<CreateBucketConfiguration><LocationConstraint>a</LocationConstraint><Location><Name>n</Name><Type>t</Type></Location><Tags/></CreateBucketConfiguration>`: "a",
	} {
		testenv.Equal(t, testenv.Must(DecodeCreateBucket([]byte(body)))(t), want, "%s", body)
	}
	twice := `<CreateBucketConfiguration><LocationConstraint>a</LocationConstraint><LocationConstraint>b</LocationConstraint></CreateBucketConfiguration>`
	testenv.Is(t, testenv.Error(DecodeCreateBucket([]byte(twice))), ErrMalformed, "two locations")
}
