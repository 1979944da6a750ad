package document

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

var (
	noon  = Time{time.Date(2026, 11, 26, 13, 0, 0, 987654321, time.FixedZone("", 3600))}
	owner = Owner{"id", "name"}
)

// TestEncode compares each document with the text that S3 would send.
func TestEncode(t *testing.T) {
	const doc = `xmlns="http://s3.amazonaws.com/doc/2006-03-01/"`
	const ownerText, noonText = `<ID>id</ID><DisplayName>name</DisplayName>`, `2026-11-26T12:00:00.000Z`
	size := int64(5)
	for _, test := range []struct {
		name string
		r    any
		want string
	}{
		{"error", Error{Code: "NoSuchKey", Message: "There is no <key>.", Key: "a&b", Resource: "/b/a&b", RequestID: "1"},
			`<Error><Code>NoSuchKey</Code><Message>There is no &lt;key&gt;.</Message><Key>a&amp;b</Key><Resource>/b/a&amp;b</Resource><RequestId>1</RequestId></Error>`},
		{"no buckets", ListAllMyBucketsResult{Owner: owner},
			`<ListAllMyBucketsResult ` + doc + `><Owner>` + ownerText + `</Owner><Buckets></Buckets></ListAllMyBucketsResult>`},
		{"buckets", ListAllMyBucketsResult{Owner: owner, Buckets: []Bucket{{"b", noon, ""}, {"c", noon, "us-east-1"}}, ContinuationToken: "t"},
			`<ListAllMyBucketsResult ` + doc + `><Owner>` + ownerText + `</Owner><ContinuationToken>t</ContinuationToken><Buckets><Bucket><Name>b</Name><CreationDate>` + noonText + `</CreationDate></Bucket>` +
				`<Bucket><Name>c</Name><CreationDate>` + noonText + `</CreationDate><BucketRegion>us-east-1</BucketRegion></Bucket></Buckets></ListAllMyBucketsResult>`},
		{"empty page", ListBucketResult{Page: Page{Name: "b", MaxKeys: 1000}},
			`<ListBucketResult ` + doc + `><Name>b</Name><Prefix></Prefix><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated><Marker></Marker></ListBucketResult>`},
		{"page", ListBucketResult{Marker: "m+", NextMarker: "n", Page: Page{Name: "b", Prefix: "p q", MaxKeys: 1, Delimiter: "/", IsTruncated: true,
			Contents: []Object{{Key: "p q/1", LastModified: noon, ETag: `"e"`, Size: 5, Owner: &owner, StorageClass: "STANDARD"}}}},
			`<ListBucketResult ` + doc + `><Name>b</Name><Prefix>p q</Prefix><MaxKeys>1</MaxKeys><Delimiter>/</Delimiter><IsTruncated>true</IsTruncated><Marker>m+</Marker><NextMarker>n</NextMarker>` +
				`<Contents><Key>p q/1</Key><LastModified>` + noonText + `</LastModified><ETag>&#34;e&#34;</ETag><Size>5</Size><Owner>` + ownerText + `</Owner><StorageClass>STANDARD</StorageClass></Contents></ListBucketResult>`},
		{"page with encoded names", ListBucketResult{Marker: "m+", NextMarker: "ü", Page: Page{Name: "b", Prefix: "p q", MaxKeys: 1, Delimiter: "|", EncodingType: EncodingURL,
			CommonPrefixes: []CommonPrefix{{"p q/\x01|"}}}},
			`<ListBucketResult ` + doc + `><Name>b</Name><Prefix>p%20q</Prefix><MaxKeys>1</MaxKeys><Delimiter>%7C</Delimiter><EncodingType>url</EncodingType>` +
				`<IsTruncated>false</IsTruncated><Marker>m%2B</Marker><NextMarker>%C3%BC</NextMarker><CommonPrefixes><Prefix>p%20q/%01%7C</Prefix></CommonPrefixes></ListBucketResult>`},
		{"page of version 2", ListBucketResultV2{StartAfter: "s t", ContinuationToken: "a+", NextContinuationToken: "b+", KeyCount: 2, Page: Page{Name: "b", MaxKeys: 2, Delimiter: "/", EncodingType: EncodingURL, IsTruncated: true,
			Contents: []Object{{Key: "k%", LastModified: noon, ETag: "e", ChecksumAlgorithm: "CRC64NVME", ChecksumType: "FULL_OBJECT", StorageClass: "STANDARD"}}, CommonPrefixes: []CommonPrefix{{"l/"}}}},
			`<ListBucketResult ` + doc + `><Name>b</Name><Prefix></Prefix><MaxKeys>2</MaxKeys><Delimiter>/</Delimiter><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>` +
				`<StartAfter>s%20t</StartAfter><ContinuationToken>a+</ContinuationToken><NextContinuationToken>b+</NextContinuationToken><KeyCount>2</KeyCount><Contents><Key>k%25</Key><LastModified>` + noonText + `</LastModified><ETag>e</ETag><ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>` +
				`<ChecksumType>FULL_OBJECT</ChecksumType><Size>0</Size><StorageClass>STANDARD</StorageClass></Contents><CommonPrefixes><Prefix>l/</Prefix></CommonPrefixes></ListBucketResult>`},
		{"versions", ListVersionsResult{KeyMarker: "a b", VersionIDMarker: "v", Page: Page{Name: "b", EncodingType: EncodingURL, Contents: []Object{
			{Key: "a c", VersionID: "w", Latest: true, Mark: true, LastModified: noon, Owner: &owner, StorageClass: "STANDARD"}, {Key: "a c", VersionID: NullVersion, LastModified: noon, ETag: "e", Size: 1, StorageClass: "STANDARD"}}}},
			`<ListVersionsResult ` + doc + `><Name>b</Name><Prefix></Prefix><MaxKeys>0</MaxKeys><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated><KeyMarker>a%20b</KeyMarker><VersionIdMarker>v</VersionIdMarker>` +
				`<DeleteMarker><Key>a%20c</Key><VersionId>w</VersionId><IsLatest>true</IsLatest><LastModified>` + noonText + `</LastModified><Owner>` + ownerText + `</Owner></DeleteMarker>` +
				`<Version><Key>a%20c</Key><VersionId>null</VersionId><IsLatest>false</IsLatest><LastModified>` + noonText + `</LastModified><ETag>e</ETag><Size>1</Size><StorageClass>STANDARD</StorageClass></Version></ListVersionsResult>`},
		{"setting", Setting("VersioningConfiguration", "Status", "Suspended"), `<VersioningConfiguration ` + doc + `><Status>Suspended</Status></VersioningConfiguration>`},
		{"no setting", Setting("VersioningConfiguration", "", ""), `<VersioningConfiguration ` + doc + `></VersioningConfiguration>`},
		{"copy", Copied("CopyObjectResult", noon.Time, "e", Checksums{ChecksumSHA1: "s", ChecksumType: "FULL_OBJECT"}),
			`<CopyObjectResult ` + doc + `><LastModified>` + noonText + `</LastModified><ETag>e</ETag><ChecksumSHA1>s</ChecksumSHA1><ChecksumType>FULL_OBJECT</ChecksumType></CopyObjectResult>`},
		{"copied part", Copied("CopyPartResult", noon.Time, "e", Checksums{}),
			`<CopyPartResult ` + doc + `><LastModified>` + noonText + `</LastModified><ETag>e</ETag></CopyPartResult>`},
		{"deleted", DeleteResult{Deleted: []Deleted{{Key: "a"}, {"b", "v", true, "v"}}, Errors: []DeleteError{{"c\uffff", "", "AccessDenied", "No."}}},
			`<DeleteResult ` + doc + `><Deleted><Key>a</Key></Deleted><Deleted><Key>b</Key><VersionId>v</VersionId><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>v</DeleteMarkerVersionId></Deleted><Error><Key>c&#xFFFF;</Key><Code>AccessDenied</Code><Message>No.</Message></Error></DeleteResult>`},
		{"upload", InitiateMultipartUploadResult{Bucket: "b", Key: "k", UploadID: "u"},
			`<InitiateMultipartUploadResult ` + doc + `><Bucket>b</Bucket><Key>k</Key><UploadId>u</UploadId></InitiateMultipartUploadResult>`},
		{"completed", CompleteMultipartUploadResult{Location: "http://l/b/k", Bucket: "b", Key: "k", ETag: "e-2"},
			`<CompleteMultipartUploadResult ` + doc + `><Location>http://l/b/k</Location><Bucket>b</Bucket><Key>k</Key><ETag>e-2</ETag></CompleteMultipartUploadResult>`},
		{"parts", ListPartsResult{Bucket: "b", Key: "k", UploadID: "u", NextPartNumberMarker: 1, MaxParts: 1, IsTruncated: true,
			Parts: []Part{{1, noon, "e", 5, Checksums{ChecksumCRC32: "c"}}}, Initiator: owner, Owner: owner, StorageClass: "STANDARD", ChecksumAlgorithm: "CRC32", ChecksumType: "COMPOSITE"},
			`<ListPartsResult ` + doc + `><Bucket>b</Bucket><Key>k</Key><UploadId>u</UploadId><PartNumberMarker>0</PartNumberMarker><NextPartNumberMarker>1</NextPartNumberMarker><MaxParts>1</MaxParts><IsTruncated>true</IsTruncated>` +
				`<Part><PartNumber>1</PartNumber><LastModified>` + noonText + `</LastModified><ETag>e</ETag><Size>5</Size><ChecksumCRC32>c</ChecksumCRC32></Part><Initiator>` + ownerText + `</Initiator><Owner>` + ownerText + `</Owner>` +
				`<StorageClass>STANDARD</StorageClass><ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>COMPOSITE</ChecksumType></ListPartsResult>`},
		{"uploads", ListMultipartUploadsResult{Bucket: "b", KeyMarker: "k m", NextKeyMarker: "l m", NextUploadIDMarker: "v", Prefix: " ", EncodingType: EncodingURL, MaxUploads: 1, IsTruncated: true,
			Uploads: []Upload{{Key: "a=b", UploadID: "u", Initiator: owner, Owner: owner, StorageClass: "STANDARD", Initiated: noon}}},
			`<ListMultipartUploadsResult ` + doc + `><Bucket>b</Bucket><KeyMarker>k%20m</KeyMarker><UploadIdMarker></UploadIdMarker><NextKeyMarker>l%20m</NextKeyMarker><NextUploadIdMarker>v</NextUploadIdMarker><Prefix>%20</Prefix>` +
				`<EncodingType>url</EncodingType><MaxUploads>1</MaxUploads><IsTruncated>true</IsTruncated><Upload><Key>a%3Db</Key><UploadId>u</UploadId><Initiator>` + ownerText + `</Initiator><Owner>` + ownerText + `</Owner>` +
				`<StorageClass>STANDARD</StorageClass><Initiated>` + noonText + `</Initiated></Upload></ListMultipartUploadsResult>`},
		{"attributes", GetObjectAttributesResponse{ETag: "e", Checksum: &Checksums{ChecksumCRC64NVME: "n", ChecksumType: "FULL_OBJECT"}, StorageClass: "STANDARD", ObjectSize: &size,
			ObjectParts: &ObjectParts{PartsCount: 1, MaxParts: 1000, Parts: []ObjectPart{{1, 5, Checksums{}}}}},
			`<GetObjectAttributesResponse ` + doc + `><ETag>e</ETag><Checksum><ChecksumCRC64NVME>n</ChecksumCRC64NVME><ChecksumType>FULL_OBJECT</ChecksumType></Checksum><ObjectParts><PartsCount>1</PartsCount>` +
				`<PartNumberMarker>0</PartNumberMarker><NextPartNumberMarker>0</NextPartNumberMarker><MaxParts>1000</MaxParts><IsTruncated>false</IsTruncated><Part><PartNumber>1</PartNumber><Size>5</Size></Part></ObjectParts>` +
				`<StorageClass>STANDARD</StorageClass><ObjectSize>5</ObjectSize></GetObjectAttributesResponse>`},
		{"no attributes", GetObjectAttributesResponse{}, `<GetObjectAttributesResponse ` + doc + `></GetObjectAttributesResponse>`},
		{"form", PostResponse{Location: "http://l/b/k", Bucket: "b", Key: "k", ETag: "e"},
			`<PostResponse><Location>http://l/b/k</Location><Bucket>b</Bucket><Key>k</Key><ETag>e</ETag></PostResponse>`},
		{"access", AccessControlPolicy{Owner: owner},
			`<AccessControlPolicy ` + doc + `><Owner>` + ownerText + `</Owner><AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">` + ownerText +
				`</Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(Encode(test.r)); got != xml.Header+test.want {
				t.Errorf("got\n%s\nwant\n%s", got, xml.Header+test.want)
			}
		})
	}
}

// TestEncodeKeepsTheListing checks that encoding names for a response leaves the caller's as they
// are.
func TestEncodeKeepsTheListing(t *testing.T) {
	r := ListBucketResult{Page: Page{EncodingType: EncodingURL, Prefix: " ", Contents: []Object{{Key: " "}}, CommonPrefixes: []CommonPrefix{{" "}}}}
	if first, second := string(Encode(r)), string(Encode(r)); first != second {
		t.Errorf("first\n%s\nthen\n%s", first, second)
	}
	u := ListMultipartUploadsResult{EncodingType: EncodingURL, Uploads: []Upload{{Key: " "}}}
	if first, second := string(Encode(u)), string(Encode(u)); first != second {
		t.Errorf("first\n%s\nthen\n%s", first, second)
	}
}

// TestNames checks how single characters of keys are written.
func TestNames(t *testing.T) {
	for _, test := range []struct{ name, inXML, inURL string }{
		{"a/b", "a/b", "a/b"},
		{"a b", "a b", "a%20b"},
		{"a+b", "a+b", "a%2Bb"},
		{"a%20b", "a%20b", "a%2520b"},
		{"-_.*~!'()", "-_.*~!&#39;()", "-_.*%7E%21%27%28%29"},
		{"test_file(3).png", "test_file(3).png", "test_file%283%29.png"}, // the example in S3's documentation
		{"<&>\"", "&lt;&amp;&gt;&#34;", "%3C%26%3E%22"},
		{"\t\n\r", "&#x9;&#xA;&#xD;", "%09%0A%0D"},
		{"\x00\x1f\x7f", "&#x0;&#x1F;\x7f", "%00%1F%7F"},
		{"\ufffe\uffff", "&#xFFFE;&#xFFFF;", "%EF%BF%BE%EF%BF%BF"},
		{"ü😀", "ü😀", "%C3%BC%F0%9F%98%80"},
	} {
		var out bytes.Buffer
		writeEscaped(&out, test.name)
		testenv.Equal(t, out.String(), test.inXML, "%q in XML", test.name)
		testenv.Equal(t, string(inURL(Name(test.name))), test.inURL, "%q for encoding-type=url", test.name)
	}
}

// TestEncodeIsLinear checks that the largest page has a size in proportion to its keys.
func TestEncodeIsLinear(t *testing.T) {
	r := ListBucketResultV2{Page: Page{Contents: make([]Object, 1000)}}
	for i := range r.Contents {
		r.Contents[i].Key = Name(strings.Repeat("\uffff", 341)) // 1,023 bytes
	}
	if size := len(Encode(r)); size > 1000*(341*len("&#xFFFF;")+300) {
		t.Errorf("the page has %d bytes", size)
	}
}
