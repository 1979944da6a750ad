package exchange

import (
	"testing"

	"sluice/test/testenv"
)

// Invariant 50.
func TestPathsAreLoggedWithoutIDs(t *testing.T) {
	const id = "QNECKXVIABCDEFGHIJKLMN"
	for _, test := range []struct{ pattern, path, want string }{
		{"/v1/blobs/{account}/{blobName...}", "/v1/blobs/a-long-account/b//" + id, "/v1/blobs/a-long-account/b//" + id},
		{"s3:/{bucket}/{key} GetObject", "/some-long-bucket/" + id, "/some-long-bucket/" + id},
		{"/v1/multipart-uploads", "/v1/multipart-uploads", "/v1/multipart-uploads"},
		{"/v1/sessions/{sessionId}/use", "/v1/sessions/" + id + "/use", "/v1/sessions/QNECKX.../use"},
		{"/v1/sessions/micropaymentchannels/{channelId}", "/base/v1/sessions/micropaymentchannels/" + id, "/base/v1/sessions/micropaymentchannels/QNECKX..."},
		{"/v1/multipart-uploads/{uploadId}/parts/{partIdx}", "/v1/multipart-uploads/" + id + "/parts/7", "/v1/multipart-uploads/QNECKX.../parts/7"},
		{"/v1/sessions/{sessionId}", "/v1/sessions/" + id + "/" + id, "/v1/sessions/QNECKX.../QNECKX..."},
		{"", "/v1/session/" + id, "/v1/session/QNECKX..."},
		{"", "/favicon.ico", "/favicon.ico"},
		{"", "/ééééééééééééé", "/éééééé..."},
		{"", "*", "*"},
		{"", "", ""},
	} {
		testenv.Equal(t, loggedPath(test.pattern, test.path), test.want, "%s on %q", test.path, test.pattern)
	}
}
