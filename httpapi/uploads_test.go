package httpapi

import (
	"testing"

	"sluice/checksum"
	"sluice/test/testenv"
)

// TestETagsOfParts compares each stored part's ETag with its bytes, even if the part replaces
// another.
func TestETagsOfParts(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	upload := s.newUpload(t, "0x1", "name", "")
	for _, content := range []string{"content", "another", "x"} {
		res, _ := s.want(t, 200, "PUT", upload+"/parts/0", content)
		want := checksum.ETag(int64(len(content)), checksum.Update(0, []byte(content)))
		testenv.Equal(t, res.Header.Get("ETag"), want, "the ETag of %q", content)
	}
	res, _ := s.want(t, 400, "PUT", upload+"/parts/0", "")
	testenv.Equal(t, res.Header.Get("ETag"), "", "the ETag of a part that is refused")
}
