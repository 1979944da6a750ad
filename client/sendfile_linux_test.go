package client

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/test/testenv"
)

// TestStalledSendFile checks that an upload ends if its server accepts no bytes: the watchdog also
// watches bytes that are sent without copies.
func TestStalledSendFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(testenv.MemoryDir(t), "file")
	testenv.OK(t, os.WriteFile(path, nil, 0o600))
	testenv.OK(t, os.Truncate(path, 64<<20))               // fills buffers
	l := testenv.Must(net.Listen("tcp", "127.0.0.1:0"))(t) // nothing is read of its connections
	c := testenv.Must(New("http://"+l.Addr().String(), Options{MaxAttempts: 1, StallTimeout: 50 * time.Millisecond}))(t)
	if _, err := c.PutFile(t.Context(), "team", "a", path, PutOptions{PartSize: 64 << 20}); !errors.Is(err, errStalled) || !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	testenv.Check(t, l.Close())
}
