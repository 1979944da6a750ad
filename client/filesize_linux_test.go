package client_test

import (
	"io"
	"os"
	"testing"

	"sluice/client"
	"sluice/test/testenv"
)

// TestFilesWithoutTheirSize stores files that have more or fewer bytes than stat's 0 and 4096.
func TestFilesWithoutTheirSize(t *testing.T) {
	_, c := startServer(t)
	for _, path := range []string{"/proc/version", "/proc/sys/kernel/ostype", "/sys/devices/system/cpu/online"} {
		want := testenv.Must(os.ReadFile(path))(t)
		b := testenv.Must(c.PutFile(t.Context(), "team", "a", path, client.PutOptions{}))(t)
		r := testenv.Must(c.Get(t.Context(), "team", "a", client.GetOptions{}))(t)
		testenv.Equal(t, string(testenv.Must(io.ReadAll(r))(t)), string(want), "%s", path)
		testenv.Equal(t, b.ContentType, "text/plain; charset=utf-8", "the content type of %s", path)
	}
}
