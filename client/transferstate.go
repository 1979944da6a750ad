package client

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/wire"
)

// transferStateVersion is the form's version in the state files of transfers.
const transferStateVersion = 1

// maxTransferState is a state file's largest size in bytes. 5 TiB in ranges of 1 MiB need less.
const maxTransferState = 256 << 20

// Endings of temporary files' names.
const (
	uploadStateSuffix   = ".sluice-upload"
	downloadStateSuffix = ".sluice-download"
	downloadPartSuffix  = ".sluice-part"

	// These follow a state file's name.
	lockSuffix        = ".lock"
	replacementSuffix = ".tmp"
)

// IsTemporary reports whether a file name is one that PutFile and DownloadFile use for a state file
// or an incomplete download, so that copying a folder should omit it.
func IsTemporary(base string) bool {
	base = strings.TrimSuffix(strings.TrimSuffix(base, lockSuffix), replacementSuffix)
	for _, suffix := range []string{uploadStateSuffix, downloadStateSuffix, downloadPartSuffix} {
		if strings.HasPrefix(base, ".") && strings.HasSuffix(base, suffix) {
			return true
		}
	}
	return false
}

// temporaryName returns a temporary file's name, which belongs to the file base and the target. A
// long name is shortened: file systems limit names to 255 bytes, and eCryptfs to 143.
func temporaryName(base, target, suffix string) string {
	const longest = 100
	sum := sha256.Sum256([]byte(base + "\x00" + target))
	return fmt.Sprintf(".%s.%x%s", strings.ToValidUTF8(base[:min(len(base), longest)], ""), sum[:4], suffix)
}

// transferState is a transfer's state file, and a lock that excludes other transfers with the same
// state file. The lock is on a file of its own, because the state file is replaced.
type transferState struct {
	root *os.Root
	name string
	lock *os.File
}

// lockTransferState locks the state file with this name, which need not exist. It returns ErrBusy
// if another transfer has locked it, and errForeign if the lock is another user's. The lock ends
// with the process.
func lockTransferState(root *os.Root, name string) (*transferState, error) {
	lockName := name + lockSuffix
	for {
		f, err := openOrCreateOwn(root, lockName, os.O_RDWR)
		if err != nil {
			return nil, unwritable(root, lockName, err)
		}
		locked, err := tryLock(f)
		if err == nil && !locked {
			err = fmt.Errorf("%w: %s is locked", ErrBusy, lockName)
		}
		if err == nil && isCurrent(root, lockName, f) {
			return &transferState{root, name, f}, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		// The file was removed before it was locked: its lock excludes no other transfer.
	}
}

// errUnwritable is returned if no state file can be created in its folder.
var errUnwritable = errors.New("files cannot be created in the folder")

// unwritable returns err, or errUnwritable if that is its cause.
func unwritable(root *os.Root, name string, err error) error {
	e, isPath := errors.AsType[*fs.PathError](err)
	if isPath && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)) && !exists(root, name) {
		return fmt.Errorf("%w %s: %w", errUnwritable, filepath.Clean(root.Name()), e.Err)
	}
	return err
}

// stateError returns the reason why a state file cannot be used.
func stateError(err error) error {
	if errors.Is(err, errUnwritable) {
		return err
	}
	return fmt.Errorf("the state file cannot be used: %w", err)
}

func isCurrent(root *os.Root, name string, f *os.File) bool {
	held, err1 := f.Stat()
	named, err2 := root.Lstat(name)
	return err1 == nil && err2 == nil && os.SameFile(held, named)
}

// unlock releases the lock and removes its file.
func (s *transferState) unlock() error {
	// On Windows an open file cannot be removed; there, a file that another process has opened
	// meanwhile cannot be removed, either.
	if runtime.GOOS == "windows" {
		err := s.lock.Close()
		_ = s.root.Remove(s.name + lockSuffix)
		return err
	}
	return errors.Join(s.root.Remove(s.name+lockSuffix), s.lock.Close())
}

// load returns the state file's text, or nil if there is none that this user has written.
func (s *transferState) load() ([]byte, error) {
	f, err := openOwn(s.root, s.name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errForeign) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTransferState+1))
	return text, errors.Join(err, f.Close())
}

// save replaces the state file durably: after any end it has its old or its new text.
func (s *transferState) save(text []byte) error {
	temporary := s.name + replacementSuffix // one name for all: the lock is held
	if err := removeIfExists(s.root, temporary); err != nil {
		return err
	}
	f, err := createOwn(s.root, temporary, os.O_WRONLY)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.root.Rename(temporary, s.name)
	}
	if err != nil {
		return errors.Join(err, s.root.Remove(temporary))
	}
	return syncFolder(s.root.Name())
}

// remove removes the state file, if there is one.
func (s *transferState) remove() error {
	return errors.Join(removeIfExists(s.root, s.name), removeIfExists(s.root, s.name+replacementSuffix))
}

// leftBehind reports whether there is a state file with this name, or a file that belongs to one.
func leftBehind(root *os.Root, name string) bool {
	return exists(root, name) || exists(root, name+lockSuffix) || exists(root, name+replacementSuffix)
}

func exists(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}

func removeIfExists(root *os.Root, name string) error {
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// uploadState is an upload's state file: JSON, mode 0600. The upload id in it is a capability for
// the account.
type uploadState struct {
	Version  int              `json:"version"`
	Service  string           `json:"service"` // base URL
	UploadID string           `json:"uploadId"`
	Begun    time.Time        `json:"begun"`
	Begin    wire.BeginUpload `json:"begin"` // the request that began the upload
	Size     int64            `json:"size"`  // of the file
	Modified time.Time        `json:"modified"`
	ETag     string           `json:"etag,omitempty"` // of the copied blob
}

// parseUploadState parses a state file. It returns an error for everything that uploadState cannot
// be.
func parseUploadState(text []byte) (*uploadState, error) {
	var s uploadState
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	b := &s.Begin
	switch {
	case s.Version != transferStateVersion:
		return nil, fmt.Errorf("version %d is unknown", s.Version)
	case s.UploadID == "" || b.RawAccount == nil || b.RawBlobName == nil || b.RawPartSize == nil:
		return nil, errors.New("it is incomplete")
	case s.Size < 0 || s.Size > maxBlobSize || *b.RawPartSize < 1 || *b.RawPartSize > maxPartSize || s.Size / *b.RawPartSize >= maxParts:
		return nil, errors.New("a size is out of range")
	}
	return &s, nil
}

// resumes reports whether the upload that s describes can be continued as the upload that now would
// begin. The part size in s remains. The expiry may be later by as much time as has passed: if it
// is relative to now, it is relative to when the upload began. The options are made a while before
// an upload begins, hence the tolerance.
func (s *uploadState) resumes(now *uploadState) bool {
	const tolerance = time.Minute
	later := *now
	later.UploadID, later.Begun = s.UploadID, s.Begun
	later.Begin.RawPartSize = s.Begin.RawPartSize
	if before, err := time.Parse(time.RFC3339Nano, s.Begin.Expires); err == nil {
		after, err := time.Parse(time.RFC3339Nano, now.Begin.Expires)
		if moved := after.Sub(before); err == nil && moved >= 0 && moved <= now.Begun.Sub(s.Begun)+tolerance {
			later.Begin.Expires = s.Begin.Expires
		}
	}
	a, err1 := json.Marshal(s)
	b, err2 := json.Marshal(&later)
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}

// downloadState is a download's state file: a line of JSON, and then a line "INDEX CRC" for each
// range that was written to the temporary file.
type downloadState struct {
	Version   int    `json:"version"`
	Service   string `json:"service"` // base URL
	Account   string `json:"account"`
	Name      string `json:"name"`
	ETag      string `json:"etag"`
	Size      int64  `json:"size"`
	RangeSize int64  `json:"rangeSize"`

	ranges map[int]uint64 // CRCs by index
}

// appendRange appends a range's line to text.
func appendRange(text []byte, index int, crc uint64) []byte {
	return fmt.Appendf(text, "%d %016x\n", index, crc)
}

// parseDownloadState parses a state file. It ignores a last line that is incomplete.
func parseDownloadState(text []byte) (*downloadState, error) {
	head, rest, complete := bytes.Cut(text, []byte("\n"))
	if !complete {
		return nil, errors.New("it has no first line")
	}
	s := downloadState{ranges: map[int]uint64{}}
	if err := json.Unmarshal(head, &s); err != nil {
		return nil, err
	}
	switch {
	case s.Version != transferStateVersion:
		return nil, fmt.Errorf("version %d is unknown", s.Version)
	case s.ETag == "" || s.Account == "" || s.Name == "":
		return nil, errors.New("it is incomplete")
	case s.Size < 1 || s.Size > maxBlobSize || s.RangeSize < 1:
		return nil, errors.New("a size is out of range")
	}
	last := (s.Size - 1) / s.RangeSize
	for len(rest) > 0 {
		var line []byte
		if line, rest, complete = bytes.Cut(rest, []byte("\n")); !complete {
			break
		}
		indexText, crcText, _ := strings.Cut(string(line), " ")
		index, err1 := strconv.ParseInt(indexText, 10, 64)
		crc, err2 := strconv.ParseUint(crcText, 16, 64)
		if err1 != nil || err2 != nil || index < 0 || index > last || len(crcText) != 16 {
			return nil, fmt.Errorf("the line %q is malformed", line)
		}
		s.ranges[int(index)] = crc
	}
	return &s, nil
}
