package testenv

import (
	"archive/tar"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// keptCluster returns the path to an archive in the user's cache with the cluster that a program
// makes with these arguments. It need not exist. Another program version has another path.
func keptCluster(initdb string, args []string) (path string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program, err := os.Stat(initdb)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %q", initdb, program.Size(), program.ModTime().UnixNano(), args))
	return filepath.Join(cache, "sluice-tests", fmt.Sprintf("cluster-%x.tar", key[:8])), nil
}

// keepCluster replaces an archive, atomically and durably, by one with the files of a cluster that
// no server uses.
func keepCluster(kept, data string) error {
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(kept), ".cluster-")
	if err != nil {
		return err
	}
	archive := tar.NewWriter(temporary)
	err = archive.AddFS(os.DirFS(data))
	if err = errors.Join(err, archive.Close(), temporary.Sync(), temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), kept)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temporary.Name()))
	}
	return err
}

// extractCluster creates a folder with an archive's files, and calls created for each of them. It
// returns fs.ErrNotExist, and creates nothing, if there is no archive.
func extractCluster(data, kept string, created func(path string) error) (err error) {
	file, err := os.Open(kept)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := errors.Join(os.Mkdir(data, 0o700), created(data)); err != nil {
		return err
	}
	archive := tar.NewReader(file)
	for {
		entry, err := archive.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		path := filepath.Join(data, filepath.FromSlash(entry.Name))
		if err := errors.Join(extract(archive, entry.FileInfo(), path), created(path)); err != nil {
			return err
		}
	}
}

// extract creates a file or folder from an archive.
func extract(content io.Reader, info fs.FileInfo, path string) error {
	if info.IsDir() {
		return os.Mkdir(path, 0o700)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
