package checksums

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"sluice/test/testenv"
)

// parts returns parts of 5 MiB with these checksums.
func parts(t *testing.T, a Algorithm, texts ...string) (list []Part) {
	t.Helper()
	for _, text := range texts {
		list = append(list, Part{testenv.Must(ParseValue(a, text))(t), 5 << 20})
	}
	return list
}

// TestFinal has the vectors of ceph's s3-tests (multipart_checksum_3parts_helper, commit 8f0ae7b).
// Invariant 183.
func TestFinal(t *testing.T) {
	for _, test := range []struct {
		algorithm Algorithm
		parts     []string
		want      string
		kind      Type
	}{
		{CRC32, []string{"JRTCyQ==", "QoZTGg==", "YAgjqw=="}, "WgDhBQ==", FullObject},
		{CRC32C, []string{"MDaLrw==", "TH4EZg==", "Z7mBIQ=="}, "xU+Krw==", FullObject},
		{CRC64NVME, []string{"L/E4WYn8v98=", "xW1l19VobYM=", "cK5MnNaWrW4="}, "i+6LR0y3eFo=", FullObject},
		{SHA1, []string{"iIaTCGbm+vdVjNqIMF2S0T7ibMk=", "LS/TJ32bAVKEwRu+sE3X7awh/lk=", "6DDwovUaHwrKNXDMzOGbuvj9kxI="}, "sizjvY4eud3MrcHdZM3cQ/ol39o=-3", Composite},
		{SHA256, []string{"275VF5loJr1YYawit0XSHREhkFXYkkPKGuoK0x9VKxI=", "mrHwOfjTL5Zwfj74F05HOQGLdUb7E5szdCbxgUSq6NM=",
			"Vw7oB/nKQ5xWb3hNgbyfkvDiivl+U+/Dft48nfJfDow="}, "uWBwpe1dxI4Vw8Gf0X9ynOdw/SS6VBzfWm9giiv1sf4=-3", Composite},
	} {
		list := parts(t, test.algorithm, test.parts...)
		sum, _, _ := strings.Cut(test.want, "-")
		for _, stated := range []string{test.want, sum} {
			f := testenv.Must(ParseFinal(http.Header{http.CanonicalHeaderKey(test.algorithm.Header()): {stated}}))(t)
			got, err := f.Check(list)
			if err != nil || got != test.want || f.Type != test.kind {
				t.Errorf("%s: %s %s, %v, want %s %s", stated, f.Type, got, err, test.kind, test.want)
			}
			if got, err := f.Check(list[:2]); !errors.Is(err, ErrBadDigest) {
				t.Errorf("%s of two parts: %s, %v", stated, got, err)
			}
		}
	}
}

func TestFinalIsRefused(t *testing.T) {
	const crc, sha = "WgDhBQ==", "uWBwpe1dxI4Vw8Gf0X9ynOdw/SS6VBzfWm9giiv1sf4="
	for _, h := range []http.Header{
		{"X-Amz-Checksum-Crc32": {"bad"}}, {"X-Amz-Checksum-Crc32": {crc, crc}}, {"X-Amz-Checksum-Crc32": {crc}, "X-Amz-Checksum-Crc32c": {crc}},
		{"X-Amz-Checksum-Sha256": {sha}, "X-Amz-Checksum-Type": {"FULL_OBJECT"}}, {"X-Amz-Checksum-Crc32": {crc + "-3"}, "X-Amz-Checksum-Type": {"FULL_OBJECT"}},
		{"X-Amz-Checksum-Crc32": {crc}, "X-Amz-Checksum-Type": {"OTHER"}}, {"X-Amz-Checksum-Crc64nvme": {"i+6LR0y3eFo=-3"}}, {"X-Amz-Checksum-Sha256": {"-3"}},
	} {
		if f, err := ParseFinal(h); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%v: %+v, %v", h, f, err)
		}
	}
	if f, err := ParseFinal(http.Header{"X-Amz-Checksum-Type": {"COMPOSITE"}}); f != nil || err != nil {
		t.Errorf("no checksum: %+v, %v", f, err)
	}
	f := testenv.Must(ParseFinal(http.Header{"X-Amz-Checksum-Crc32": {crc + "-4"}}))(t)
	testenv.Is(t, testenv.Error(f.Check(parts(t, CRC32, crc, crc, crc))), ErrBadDigest, "another number of parts")
	f = testenv.Must(ParseFinal(http.Header{"X-Amz-Checksum-Md5": {"1B2M2Y8AsgTpgAmY7PhCfg=="}, "X-Amz-Checksum-Type": {"FULL_OBJECT"}}))(t)
	testenv.Is(t, testenv.Error(f.Check(parts(t, MD5, "1B2M2Y8AsgTpgAmY7PhCfg=="))), ErrInvalidRequest, "a digest that cannot be combined")
}
