package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/test/testenv"
)

// TestNetworkFS looks at file systems of this machine, and at one that may have its data elsewhere:
// FUSE, where the kernel answers for a user who may not use it. The numbers are in linux/magic.h.
func TestNetworkFS(t *testing.T) {
	for _, dir := range []string{"/proc", testenv.MemoryDir(t)} {
		testenv.Equal(t, testenv.Must(NetworkFS(dir))(t), "", "the network file system of %s", dir)
	}
	testenv.Equal(t, testenv.Error(NetworkFS(t.TempDir()+"/none")) != nil, true, "a folder that does not exist is an error")
	for number, want := range map[uint32]string{0x6969: "NFS", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x00c36400: "CephFS", 0xef53: "", 0x58465342: ""} {
		testenv.Equal(t, networkFileSystems[number], want, "%#x", number)
	}
	testenv.Require(t, testenv.RootMount)
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return // a kernel without FUSE
	}
	testenv.OK(t, err)
	defer func() { testenv.Check(t, device.Close()) }()
	dir := t.TempDir()
	testenv.OK(t, unix.Mount("fuse", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=65534,group_id=65534", device.Fd())))
	defer func() { testenv.Check(t, testenv.Unmount(dir)) }()
	testenv.Equal(t, testenv.Must(NetworkFS(dir))(t), "FUSE", "the file system")
}
