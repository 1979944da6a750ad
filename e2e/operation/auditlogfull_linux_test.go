package operation

import (
	"fmt"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestFullAuditLog checks that requests succeed while no line can be written, that each line is
// counted as lost, and that the log has one message.
// Invariant 191.
func TestFullAuditLog(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, e2e.Options{Flags: []string{"--audit-log", "/dev/full", "--admin-addr", "127.0.0.1:0"}})
	for i := range 50 {
		s.Must(204, "PUT", e2e.BlobTarget("0x1", fmt.Sprint(i%7)), []byte("x"))
	}
	s.Await("not every line is counted", func() bool { return s.Counter(`sluice_audit_lines_total{result="lost"}`) == 50 })
	testenv.Equal(t, s.Counter(`sluice_audit_lines_total{result="written"}`), 0, "lines written")
	testenv.Equal(t, strings.Count(s.Log.String(), "cannot write the audit log"), 1, "messages")
}
