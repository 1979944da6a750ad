package sigv4

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/signer"

	"sluice/test/testenv"
)

// Credentials in the examples of Amazon's S3 API Reference.
const (
	exampleKey    = "AKIAIOSFODNN7EXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	exampleScope  = exampleKey + "/20130524/us-east-1/s3/aws4_request"
)

var exampleTime = time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)

// received returns a request as a server gets it.
func received(t testing.TB, method, target, host string, headers ...string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://"+host+target, nil)
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func verify(r *http.Request, secret string, now time.Time) (*Chain, error) {
	s, err := Parse(r, r.URL.Query())
	if err != nil {
		return nil, err
	}
	return s.Verify(r, r.URL.Query(), secret, now)
}

// TestExamples verifies the signed requests in Amazon's S3 API Reference.
func TestExamples(t *testing.T) {
	const bucket, stamp = "examplebucket.s3.amazonaws.com", "20130524T000000Z"
	signed := func(headers, signature string) string {
		return algorithm + " Credential=" + exampleScope + ",SignedHeaders=" + headers + ",Signature=" + signature
	}
	for name, r := range map[string]*http.Request{
		"GET an object": received(t, "GET", "/test.txt", bucket, "Range", "bytes=0-9", "X-Amz-Content-Sha256", emptyDigest, "X-Amz-Date", stamp,
			"Authorization", signed("host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")),
		"PUT an object": received(t, "PUT", "/test$file.text", bucket, "Date", "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class", "REDUCED_REDUNDANCY", "X-Amz-Date", stamp,
			"X-Amz-Content-Sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
			"Authorization", signed("date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")),
		"GET a bucket's lifecycle": received(t, "GET", "/?lifecycle", bucket, "X-Amz-Date", stamp, "X-Amz-Content-Sha256", emptyDigest,
			"Authorization", signed("host;x-amz-content-sha256;x-amz-date", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543")),
		"list a bucket": received(t, "GET", "/?max-keys=2&prefix=J", bucket, "X-Amz-Date", stamp, "X-Amz-Content-Sha256", emptyDigest,
			"Authorization", signed("host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")),
		"a presigned URL": received(t, "GET", "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="+url.QueryEscape(exampleScope)+
			"&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404", bucket),
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Must(verify(r, exampleSecret, exampleTime))(t)
			_, err := verify(r, exampleSecret+"x", exampleTime)
			testenv.Is(t, err, ErrMismatch, "the error")
		})
	}
}

// TestExampleOfChunks verifies the chunks in Amazon's S3 API Reference, with and without a trailer.
func TestExampleOfChunks(t *testing.T) {
	body := bytes.Repeat([]byte{'a'}, 66560)
	for _, example := range []struct {
		headers []string
		chunks  []string // signatures
		trailer string
	}{
		{
			[]string{"X-Amz-Content-Sha256", string(StreamingSigned), "Authorization", algorithm + " Credential=" + exampleScope +
				",SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class,Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"},
			[]string{
				"ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648", "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
				"b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
			}, "",
		},
		{
			[]string{"X-Amz-Content-Sha256", string(StreamingSignedTrailer), "X-Amz-Trailer", "x-amz-checksum-crc32c", "Authorization", algorithm + " Credential=" + exampleScope +
				",SignedHeaders=content-encoding;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer,Signature=106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"},
			[]string{
				"b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2", "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
				"2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
			}, "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435",
		},
	} {
		r := received(t, "PUT", "/examplebucket/chunkObject.txt", "s3.amazonaws.com", append(example.headers, "X-Amz-Date", "20130524T000000Z",
			"X-Amz-Storage-Class", "REDUCED_REDUNDANCY", "Content-Encoding", "aws-chunked", "X-Amz-Decoded-Content-Length", "66560")...)
		r.ContentLength = 66824
		chain := testenv.Must(verify(r, exampleSecret, exampleTime))(t)
		for i, chunk := range [][]byte{body[:65536], body[65536:], nil} {
			if !chain.Chunk(sha256.Sum256(chunk), example.chunks[i]) {
				t.Errorf("chunk %d has another signature", i)
			}
		}
		if example.trailer != "" && !chain.Trailer(sha256.Sum256([]byte("x-amz-checksum-crc32c:sOO8/Q==\n")), example.trailer) {
			t.Error("the trailer has another signature")
		}
		if chain.Chunk(sha256.Sum256(nil), example.chunks[0]) {
			t.Error("a chunk is accepted twice")
		}
	}
}

// targets are paths with queries that signers and servers may escape differently. A parameter that
// is there twice has its values in order, since minio-go signs them as they are in the URL.
var targets = []string{
	"/", "/bucket", "/bucket/", "/bucket/a", "/bucket/a%20b", "/bucket/a+b", "/bucket/%C3%A9t%C3%A9/%E2%82%AC", "/bucket/a//b", "/bucket/a%2Fb", "/bucket/a%2525",
	"/bucket/..", "/bucket/~-._", "/bucket/a:b@c&d=e,f;g$h!i*j'k(l)", "/bucket?list-type=2&prefix=a%2Fb&delimiter=%2F", "/bucket?prefix=a+b&max-keys=&uploads", "/bucket?a=1&a=2&A=3&a-b=4",
}

// TestSignaturesOfMinio verifies minio-go's signatures, in each form.
func TestSignaturesOfMinio(t *testing.T) {
	const key, secret, region = "a/key", "secret", "eu-west-1"
	sign := map[string]func(r http.Request) *http.Request{
		"header": func(r http.Request) *http.Request {
			r.Header.Set("X-Amz-Content-Sha256", string(Unsigned))
			r.Header.Set("X-Amz-Meta-A", "  two   words ")
			return signer.SignV4(r, key, secret, "", region)
		},
		"presigned": func(r http.Request) *http.Request { return signer.PreSignV4(r, key, secret, "", region, 60) },
	}
	for form, sign := range sign {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			for _, target := range targets {
				out := testenv.Must(http.NewRequestWithContext(t.Context(), method, "http://localhost:9000"+target, http.NoBody))(t)
				out = sign(*out)
				r := overTheWire(t, out)
				s := testenv.Must(Parse(r, r.URL.Query()))(t)
				if s.AccessKey != key || s.Region != region || s.Payload != Unsigned {
					t.Errorf("%s %s %s: %+v", form, method, target, s)
				}
				if _, err := s.Verify(r, r.URL.Query(), secret, time.Now()); err != nil {
					t.Errorf("%s %s %s: %v", form, method, target, err)
				}
			}
		}
	}
}

// TestBodiesInAnotherFraming verifies a signature that covers Transfer-Encoding, as SDKs before
// 2025 sign it (boto/botocore#3351), when a proxy has replaced the chunks by a length.
// Invariant 52.
func TestBodiesInAnotherFraming(t *testing.T) {
	out := testenv.Must(http.NewRequestWithContext(t.Context(), "PUT", "http://localhost:9000/bucket/key", nil))(t)
	out.Header.Set("X-Amz-Content-Sha256", string(StreamingUnsignedTrailer))
	out.Header.Set("Transfer-Encoding", "chunked")
	r := signer.SignV4(*out, "key", "secret", "", "r")
	r.Host = r.URL.Host
	r.Header.Del("Transfer-Encoding") // where net/http does not keep it
	if !strings.Contains(r.Header.Get("Authorization"), "transfer-encoding") {
		t.Fatalf("the signature does not cover it: %v", r.Header)
	}
	for _, framing := range [][]string{{"chunked"}, nil} {
		r.TransferEncoding = framing
		if _, err := verify(r, "secret", time.Now()); err != nil {
			t.Errorf("with the framing %q: %v", framing, err)
		}
	}
}

// overTheWire returns a request as net/http reads it from a connection.
func overTheWire(t testing.TB, out *http.Request) *http.Request {
	t.Helper()
	got := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	defer server.Close()
	out.Host = out.URL.Host
	out.URL.Host = strings.TrimPrefix(server.URL, "http://")
	resp := testenv.Must(http.DefaultTransport.RoundTrip(out))(t)
	testenv.OK(t, errors.Join(testenv.Error(io.Copy(io.Discard, resp.Body)), resp.Body.Close()))
	return <-got
}

// TestChangedRequests changes each part of a signed request: then the signature must not match, or
// must not cover the change.
func TestChangedRequests(t *testing.T) {
	signed := func() *http.Request {
		r := testenv.Must(http.NewRequestWithContext(t.Context(), "PUT", "http://localhost:9000/bucket/key?partNumber=1", nil))(t)
		r.Header.Set("X-Amz-Content-Sha256", emptyDigest)
		r.Header.Set("X-Amz-Meta-Color", "red")
		r = signer.SignV4(*r, "key", "secret", "", "r")
		r.Host = r.URL.Host
		return r
	}
	testenv.Must(verify(signed(), "secret", time.Now()))(t)
	authorization := func(old, with string) func(*http.Request) {
		return func(r *http.Request) {
			text := r.Header.Get("Authorization")
			if !strings.Contains(text, old) {
				t.Fatalf("%q is not in %q", old, text)
			}
			r.Header.Set("Authorization", strings.Replace(text, old, with, 1))
		}
	}
	day := time.Now().UTC().Format(dateForm)
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   error
	}{
		"another method":        {func(r *http.Request) { r.Method = "DELETE" }, ErrMismatch},
		"another path":          {func(r *http.Request) { r.URL.Path = "/bucket/kez" }, ErrMismatch},
		"another query":         {func(r *http.Request) { r.URL.RawQuery = "partNumber=2" }, ErrMismatch},
		"a further parameter":   {func(r *http.Request) { r.URL.RawQuery += "&acl" }, ErrMismatch},
		"another host":          {func(r *http.Request) { r.Host = "elsewhere" }, ErrMismatch},
		"another value":         {func(r *http.Request) { r.Header.Set("X-Amz-Meta-Color", "blue") }, ErrMismatch},
		"a second value":        {func(r *http.Request) { r.Header.Add("X-Amz-Meta-Color", "blue") }, ErrMismatch},
		"a header is gone":      {func(r *http.Request) { r.Header.Del("X-Amz-Meta-Color") }, ErrMismatch},
		"a header that matters": {func(r *http.Request) { r.Header.Set("X-Amz-Copy-Source", "/b/k") }, ErrNotCovered},
		"a digest of the body":  {func(r *http.Request) { r.Header.Set("Content-Md5", "x") }, ErrNotCovered},
		"another payload":       {func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", string(Unsigned)) }, ErrMismatch},
		"an unknown payload": {func(r *http.Request) {
			r.Header.Set("X-Amz-Content-Sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD")
		}, ErrMalformed},
		"no payload":               {func(r *http.Request) { r.Header.Del("X-Amz-Content-Sha256") }, ErrMalformed},
		"another time":             {func(r *http.Request) { r.Header.Set("X-Amz-Date", day+"T000000Z") }, nil},
		"no time":                  {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, ErrMalformed},
		"another date in scope":    {authorization(day, "20130524"), ErrMalformed},
		"another region":           {authorization("/r/", "/s/"), ErrMismatch},
		"another service":          {authorization("/s3/", "/sts/"), ErrMalformed},
		"no access key":            {authorization("Credential=key/", "Credential=/"), ErrMalformed},
		"a long access key":        {authorization("Credential=key/", "Credential="+strings.Repeat("k", mostAccessKey+1)+"/"), ErrMalformed},
		"a short credential":       {authorization("key/"+day+"/", ""), ErrMalformed},
		"host is not signed":       {authorization("host;", ""), ErrMalformed},
		"headers in another order": {authorization("host;x-amz-content-sha256", "x-amz-content-sha256;host"), ErrMalformed},
		"a header twice":           {authorization("host;", "host;host;"), ErrMalformed},
		"a header in upper case":   {authorization("host;", "Host;host;"), ErrMalformed},
		"many headers":             {authorization("SignedHeaders=", "SignedHeaders="+strings.Repeat("a;", mostHeaders)), ErrMalformed},
		"a signature of nothing": {func(r *http.Request) {
			text := r.Header.Get("Authorization")
			r.Header.Set("Authorization", text[:len(text)-64])
		}, ErrMalformed},
		"a short signature": {func(r *http.Request) {
			text := r.Header.Get("Authorization")
			r.Header.Set("Authorization", text[:len(text)-1])
		}, ErrMalformed},
		"a field twice":  {authorization("Credential=", "Credential=a, Credential="), ErrMalformed},
		"another scheme": {authorization(algorithm, "AWS4-ECDSA-P256-SHA256"), ErrUnsupported},
		"version 2":      {func(r *http.Request) { r.Header.Set("Authorization", "AWS key:signature") }, ErrUnsupported},
		"version 2 in the query": {func(r *http.Request) {
			r.Header.Del("Authorization")
			r.URL.RawQuery = "AWSAccessKeyId=k&Signature=s&Expires=1"
		}, ErrUnsupported},
		"two signatures": {func(r *http.Request) { r.URL.RawQuery = "X-Amz-Algorithm=" + algorithm }, ErrMalformed},
		"two headers":    {func(r *http.Request) { r.Header.Add("Authorization", "x") }, ErrMalformed},
		"no signature":   {func(r *http.Request) { r.Header.Del("Authorization") }, ErrUnsigned},
	} {
		r := signed()
		c.change(r)
		_, err := verify(r, "secret", time.Now())
		if c.want == nil && err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestTimesOfSignatures checks when a signature is valid.
func TestTimesOfSignatures(t *testing.T) {
	const stamp = "20130524T000000Z"
	header := received(t, "GET", "/test.txt", "examplebucket.s3.amazonaws.com", "Range", "bytes=0-9", "X-Amz-Content-Sha256", emptyDigest, "X-Amz-Date", stamp,
		"Authorization", algorithm+" Credential="+exampleScope+",SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
	query := received(t, "GET", "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="+url.QueryEscape(exampleScope)+
		"&X-Amz-Date="+stamp+"&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404", "examplebucket.s3.amazonaws.com")
	for _, c := range []struct {
		r     *http.Request
		after time.Duration
		want  error
	}{
		{header, -MaxSkew - time.Second, ErrSkewed}, {header, -MaxSkew, nil}, {header, 0, nil}, {header, MaxSkew, nil}, {header, MaxSkew + time.Second, ErrSkewed},
		{query, -MaxSkew - time.Second, ErrSkewed}, {query, -MaxSkew, nil}, {query, 24 * time.Hour, nil}, {query, 24*time.Hour + time.Second, ErrExpired},
	} {
		testenv.Is(t, testenv.Error(verify(c.r, exampleSecret, exampleTime.Add(c.after))), c.want, "presigned %t, after %v", c.r == query, c.after)
	}
	for _, expires := range []string{"", "0", "-1", "x", "604801"} {
		r := received(t, "GET", "/?X-Amz-Algorithm="+algorithm+"&X-Amz-Date="+stamp+"&X-Amz-Expires="+expires, "h")
		_, err := Parse(r, r.URL.Query())
		testenv.Is(t, err, ErrMalformed, "the error")
	}
}

// FuzzParse parses and verifies any signature: it must not panic, and must accept none.
func FuzzParse(f *testing.F) {
	f.Add(algorithm+" Credential="+exampleScope+",SignedHeaders=host,Signature="+strings.Repeat("0", 64), "20130524T000000Z", emptyDigest, "")
	f.Add("", "", "", "X-Amz-Algorithm="+algorithm+"&X-Amz-Credential="+url.QueryEscape(exampleScope)+"&X-Amz-Date=20130524T000000Z&X-Amz-Expires=1&X-Amz-SignedHeaders=host&X-Amz-Signature="+strings.Repeat("0", 64))
	f.Fuzz(func(t *testing.T, authorization, date, payload, query string) {
		r := &http.Request{Method: "GET", URL: &url.URL{Path: "/b/k", RawQuery: query}, Host: "h", Header: http.Header{}}
		for name, value := range map[string]string{"Authorization": authorization, "X-Amz-Date": date, "X-Amz-Content-Sha256": payload} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if _, err := verify(r, "a secret that nobody knows", exampleTime); err == nil {
			t.Fatalf("%s is accepted", fmt.Sprint(r))
		}
	})
}

// TestPayloads checks which payloads a signature can have.
func TestPayloads(t *testing.T) {
	sum := sha256.Sum256([]byte("body"))
	for payload, want := range map[Payload]bool{
		Unsigned: true, StreamingSigned: true, StreamingSignedTrailer: true, StreamingUnsignedTrailer: true, Payload(hex.EncodeToString(sum[:])): true,
		"": false, "x": false, Payload(strings.Repeat("x", 64)): false, "STREAMING-UNSIGNED-PAYLOAD": false,
	} {
		if payload.valid() != want {
			t.Errorf("%s: valid is %t", payload, !want)
		}
	}
	if got, ok := Payload(hex.EncodeToString(sum[:])).Digest(); !ok || got != sum {
		t.Errorf("the digest is %x, %t", got, ok)
	}
}
