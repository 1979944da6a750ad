package checksums

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"sluice/test/testenv"
)

// checkInput is the input for which catalogues of CRCs give the check value.
const checkInput = "123456789"

// known has the checksums of checkInput in base64.
var known = map[Algorithm]string{
	CRC32:     "y/Q5Jg==",                                     // 0xcbf43926
	CRC32C:    "4waSgw==",                                     // 0xe3069283
	CRC64NVME: "rosUhgp5mIg=",                                 // 0xae8b14860a799888
	SHA1:      "98O8HYCOBHMq32eZZczDTKeuNEE=",                 // sha1sum
	SHA256:    "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=", // sha256sum
	// sha512sum
	SHA512:    "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ==",
	MD5:       "JfnnlDI7RTiF9RgfG2JNCw==", // md5sum
	XXHash64:  "jLhB20DmroM=",             // xxhsum -H1
	XXHash3:   "ctyxi2ehff8=",             // xxhsum -H3
	XXHash128: "MxGUd+3l3NXpcWQnaB1YYA==", // xxhsum -H2
}

// TestAlgorithms compares each algorithm with values that other programs computed.
func TestAlgorithms(t *testing.T) {
	for _, a := range Algorithms() {
		h := a.New()
		testenv.Must(io.WriteString(h, checkInput))(t)
		value := Value{a, h.Sum(nil)}
		testenv.Equal(t, value.String(), known[a], "the %s", a)
		testenv.Equal(t, len(value.Sum), a.Size(), "the size of %s", a)
		parsed := testenv.Must(ParseAlgorithm(strings.ToLower(string(a))))(t)
		testenv.Equal(t, parsed, a, "the algorithm named in lower case")
		testenv.Equal(t, a.Header(), "x-amz-checksum-"+strings.ToLower(string(a)), "the header")
	}
	for _, name := range []string{"", "MD4", "CRC64", "CRC32 "} {
		testenv.Is(t, testenv.Error(ParseAlgorithm(name)), ErrInvalidRequest, "algorithm %q", name)
	}
	testenv.Equal(t, Algorithm("").Size(), 0, "the size of none")
}

// TestParse lists the statements that a request may have.
func TestParse(t *testing.T) {
	digest := md5.Sum([]byte(checkInput))
	sum := base64.StdEncoding.EncodeToString(digest[:])
	for _, test := range []struct {
		name    string
		headers []string
		want    Stated
		err     error
	}{
		{"nothing", nil, Stated{}, nil},
		{"MD5", []string{"Content-MD5", sum}, Stated{MD5: digest[:]}, nil},
		{"empty MD5", []string{"Content-MD5", ""}, Stated{}, ErrInvalidDigest},
		{"short MD5", []string{"Content-MD5", "AAAA"}, Stated{}, ErrInvalidDigest},
		{"MD5 in hex", []string{"Content-MD5", fmt.Sprintf("%x", digest)}, Stated{}, ErrInvalidDigest},
		{"MD5 twice", []string{"Content-MD5", sum, "Content-MD5", sum}, Stated{}, ErrInvalidRequest},
		{"header", []string{"x-amz-checksum-crc32", known[CRC32]}, Stated{Algorithm: CRC32, Sum: decoded(t, known[CRC32])}, nil},
		{"header and MD5", []string{"x-amz-checksum-sha1", known[SHA1], "Content-MD5", sum}, Stated{Algorithm: SHA1, Sum: decoded(t, known[SHA1]), MD5: digest[:]}, nil},
		{"wrong length", []string{"x-amz-checksum-crc32", known[SHA1]}, Stated{}, ErrInvalidRequest},
		{"empty", []string{"x-amz-checksum-crc32", ""}, Stated{}, ErrInvalidRequest},
		{"not base64", []string{"x-amz-checksum-crc32", "!!!!!!=="}, Stated{}, ErrInvalidRequest},
		{"line in base64", []string{"x-amz-checksum-crc32", "y/Q5\nJg=="}, Stated{}, ErrInvalidRequest},
		{"bits after the end", []string{"x-amz-checksum-crc32", "y/Q5Jh=="}, Stated{}, ErrInvalidRequest},
		{"unknown header", []string{"x-amz-checksum-md4", "AAAA"}, Stated{}, ErrInvalidRequest},
		{"two headers", []string{"x-amz-checksum-crc32", known[CRC32], "x-amz-checksum-sha1", known[SHA1]}, Stated{}, ErrInvalidRequest},
		{"one header twice", []string{"x-amz-checksum-crc32", known[CRC32], "x-amz-checksum-crc32", known[CRC32]}, Stated{}, ErrInvalidRequest},
		{"other headers", []string{"x-amz-checksum-mode", "ENABLED", "x-amz-checksum-algorithm", "SHA1", "x-amz-checksum-type", "COMPOSITE"}, Stated{}, nil},
		{"trailer", []string{"x-amz-trailer", "x-amz-checksum-crc64nvme"}, Stated{Algorithm: CRC64NVME, Trailer: true}, nil},
		{"trailer in upper case", []string{"x-amz-trailer", "X-Amz-Checksum-SHA256"}, Stated{Algorithm: SHA256, Trailer: true}, nil},
		{"unknown trailer", []string{"x-amz-trailer", "x-amz-meta-a"}, Stated{}, ErrInvalidRequest},
		{"two trailers", []string{"x-amz-trailer", "x-amz-checksum-crc32,x-amz-checksum-sha1"}, Stated{}, ErrInvalidRequest},
		{"header and trailer", []string{"x-amz-trailer", "x-amz-checksum-crc32", "x-amz-checksum-crc32", known[CRC32]}, Stated{}, ErrInvalidRequest},
		{"SDK with header", []string{"x-amz-sdk-checksum-algorithm", "crc32", "x-amz-checksum-crc32", known[CRC32]}, Stated{Algorithm: CRC32, Sum: decoded(t, known[CRC32])}, nil},
		{"SDK with trailer", []string{"x-amz-sdk-checksum-algorithm", "CRC32C", "x-amz-trailer", "x-amz-checksum-crc32c"}, Stated{Algorithm: CRC32C, Trailer: true}, nil},
		{"SDK alone", []string{"x-amz-sdk-checksum-algorithm", "CRC32"}, Stated{}, ErrInvalidRequest},
		{"SDK with another header", []string{"x-amz-sdk-checksum-algorithm", "CRC32", "x-amz-checksum-sha1", known[SHA1]}, Stated{}, ErrInvalidRequest},
		{"SDK with an unknown one", []string{"x-amz-sdk-checksum-algorithm", "CRC31", "x-amz-checksum-sha1", known[SHA1]}, Stated{}, ErrInvalidRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := http.Header{}
			for i := 0; i < len(test.headers); i += 2 {
				h.Add(test.headers[i], test.headers[i+1])
			}
			got, err := Parse(h)
			if !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	return testenv.Must(base64.StdEncoding.DecodeString(text))(t)
}

// TestReader reads bodies with right and wrong checksums, in headers and in trailers.
func TestReader(t *testing.T) {
	digest := md5.Sum([]byte(checkInput))
	for _, a := range Algorithms() {
		header := Stated{Algorithm: a, Sum: decoded(t, known[a])}
		behind := Stated{Algorithm: a, Trailer: true}
		for _, test := range []struct {
			name    string
			stated  Stated
			body    string
			trailer map[string]string
			want    error
		}{
			{"header", header, checkInput, nil, io.EOF},
			{"header, changed body", header, "123456780", nil, ErrBadDigest},
			{"header, no body", header, "", nil, ErrBadDigest},
			{"trailer", behind, checkInput, map[string]string{a.Header(): known[a]}, io.EOF},
			{"trailer, changed body", behind, "123456780", map[string]string{a.Header(): known[a]}, ErrBadDigest},
			{"trailer that lacks it", behind, checkInput, map[string]string{"x-amz-checksum-md4": known[a]}, ErrMalformedTrailer},
			{"no trailer", behind, checkInput, nil, ErrMalformedTrailer},
			{"malformed trailer", behind, checkInput, map[string]string{a.Header(): "?"}, ErrMalformedTrailer},
			{"with MD5", Stated{Algorithm: a, Sum: header.Sum, MD5: digest[:]}, checkInput, nil, io.EOF},
			{"with another MD5", Stated{Algorithm: a, Sum: header.Sum, MD5: make([]byte, md5.Size)}, checkInput, nil, ErrBadDigest},
		} {
			t.Run(string(a)+" "+test.name, func(t *testing.T) {
				for name, body := range shapes(test.body) {
					r := NewReader(body, test.stated, func() map[string]string { return test.trailer })
					got, err := io.ReadAll(r)
					again := testenv.Error(r.Read(make([]byte, 1)))
					if err == nil {
						err = io.EOF
					}
					if string(got) != test.body || !errors.Is(err, test.want) || !errors.Is(again, test.want) {
						t.Errorf("%s: read %q with error %v, then %v; want %v", name, got, err, again, test.want)
					}
					if want := known[a]; errors.Is(test.want, io.EOF) != (r.Value().String() == want) {
						t.Errorf("%s: the value is %q", name, r.Value())
					}
				}
			})
		}
	}
}

// shapes returns readers that deliver text in different pieces.
func shapes(text string) map[string]io.Reader {
	return map[string]io.Reader{
		"whole":        strings.NewReader(text),
		"bytes":        iotest.OneByteReader(strings.NewReader(text)),
		"end with EOF": iotest.DataErrReader(strings.NewReader(text)),
	}
}

// TestReaderPassesErrors checks that a body that ends early is no wrong checksum, and that a body
// without checksums passes.
func TestReaderPassesErrors(t *testing.T) {
	broken := errors.New("broken")
	r := NewReader(io.MultiReader(strings.NewReader("12"), iotest.ErrReader(broken)), Stated{Algorithm: CRC32, Sum: make([]byte, 4)}, nil)
	testenv.Is(t, testenv.Error(io.ReadAll(r)), broken, "a broken body")
	plain := NewReader(strings.NewReader(checkInput), Stated{}, nil)
	if got := testenv.Must(io.ReadAll(plain))(t); string(got) != checkInput || plain.Value().String() != "" {
		t.Errorf("read %q, value %q", got, plain.Value())
	}
}

// TestCompositeOf computes a composite checksum in two steps.
func TestCompositeOf(t *testing.T) {
	var parts []Value
	var sums bytes.Buffer
	for _, text := range []string{"first part", "second part"} {
		h := SHA256.New()
		testenv.Must(io.WriteString(h, text))(t)
		parts = append(parts, Value{SHA256, h.Sum(nil)})
		sums.Write(h.Sum(nil))
	}
	h := SHA256.New()
	h.Write(sums.Bytes())
	testenv.Equal(t, CompositeOf(SHA256, parts), Value{SHA256, h.Sum(nil)}.String()+"-2", "the composite checksum")
}

// FuzzParse checks that a sum that Parse accepts has the right length and is stated once.
func FuzzParse(f *testing.F) {
	f.Add("x-amz-checksum-crc32", known[CRC32], "x-amz-trailer", "")
	f.Add("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==", "x-amz-sdk-checksum-algorithm", "SHA1")
	f.Add("x-amz-trailer", "x-amz-checksum-sha256", "x-amz-sdk-checksum-algorithm", "SHA256")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		h := http.Header{}
		h.Add(name1, value1)
		h.Add(name2, value2)
		s, err := Parse(h)
		switch {
		case err != nil && !errors.Is(err, ErrInvalidRequest) && !errors.Is(err, ErrInvalidDigest):
			t.Errorf("error %v", err)
		case err == nil && !s.Trailer && len(s.Sum) != s.Algorithm.Size():
			t.Errorf("%d bytes of %s", len(s.Sum), s.Algorithm)
		case s.MD5 != nil && len(s.MD5) != md5.Size:
			t.Errorf("%d bytes of MD5", len(s.MD5))
		}
	})
}
