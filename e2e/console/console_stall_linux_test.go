package console

import (
	"strings"
	"syscall"
	"testing"
)

// TestConsoleShowsNoRateOfAStall stops the server's process, which refuses nothing and receives
// nothing, while a file is sent. The page shows neither a rate nor a time from before the stall.
// Invariant 160.
func TestConsoleShowsNoRateOfAStall(t *testing.T) {
	t.Parallel()
	s, p := openEmptyFolder(t)
	p.throttle(4 << 20)
	p.dropAndUpload(file(t, "big.bin", make([]byte, 40<<20)))
	p.untilText("#tray", "/s")
	s.Signal(syscall.SIGSTOP)
	p.untilText("#tray", "waiting for the server")
	if got := p.Text("#tray"); strings.Contains(got, "/s") || strings.Contains(got, " left") {
		t.Errorf("during the stall the tray shows %q", got)
	}
	s.Signal(syscall.SIGCONT)
	p.throttle(-1)
	p.until(`document.querySelector("#tray li[data-state=done]")`)
	if got := s.Must(200, "GET", "/v1/blobs/0x1/big.bin", nil); len(got.Body) != 40<<20 {
		t.Errorf("the blob has %d bytes", len(got.Body))
	}
}
