package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// networkFileSystems are the names of file systems with data on other machines, by the numbers that
// statfs(2) lists. A FUSE file system may have it here or elsewhere.
var networkFileSystems = map[uint32]string{
	unix.NFS_SUPER_MAGIC: "NFS", unix.SMB_SUPER_MAGIC: "SMB", unix.SMB2_SUPER_MAGIC: "SMB", unix.CIFS_SUPER_MAGIC: "SMB",
	unix.V9FS_MAGIC: "9P", unix.CEPH_SUPER_MAGIC: "CephFS", unix.AFS_SUPER_MAGIC: "AFS", unix.AFS_FS_MAGIC: "AFS",
	unix.CODA_SUPER_MAGIC: "Coda", unix.NCP_SUPER_MAGIC: "NCP", unix.FUSE_SUPER_MAGIC: "FUSE",
	0x0bd00bd0: "Lustre", 0x01161970: "GFS2", 0x7461636f: "OCFS2", 0x47504653: "GPFS",
}

// NetworkFS returns the name of a folder's file system if its data are, or may be, on another
// machine, and "" otherwise.
func NetworkFS(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return networkFileSystems[uint32(st.Type)], nil
}
