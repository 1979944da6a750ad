package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"sluice/wire"
)

// ForgetDownload removes the files that an interrupted DownloadFile for the same path, account and
// name has left. It is for callers that do not repeat the call, for example because the file is up
// to date. It sends no request. It returns ErrBusy if a download is in progress.
func (c *Client) ForgetDownload(account, name, path string, o DownloadOptions) (err error) {
	d, err := c.openFileDownload(account, name, path, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if !leftBehind(d.root, d.stateName) && !exists(d.root, d.part) {
		return nil
	}
	switch err := d.lock(); {
	case errors.Is(err, errForeign): // it is left to whom it belongs
		return nil
	case err != nil:
		return err
	}
	return d.discard()
}

// checkTarget returns an error if there is a folder at path, or a device or a pipe, to which the
// caller wants to write: a file must not replace these.
func checkTarget(root *os.Root, path string) error {
	stat := os.Stat
	if root != nil {
		stat = root.Stat
	}
	switch info, err := stat(path); {
	case err != nil || info.Mode().IsRegular(): // a link that leads out of root is replaced
		return nil
	case info.IsDir():
		return fmt.Errorf("client: download a file: %w: %s is a folder", ErrInvalid, path)
	default:
		return fmt.Errorf("client: download a file: %w: %s is not a regular file", ErrInvalid, path)
	}
}

// openFolder opens a folder, below root if there is one.
func openFolder(root *os.Root, dir string) (*os.Root, error) {
	if root == nil {
		return os.OpenRoot(dir)
	}
	return root.OpenRoot(dir)
}

// fileDownload is a download into a temporary file that becomes the file base.
type fileDownload struct {
	download
	account string
	root    *os.Root // the file's folder
	base    string
	part    string // the temporary file's name
	file    *os.File
	whole   bool // the blob is requested in one range, so that nothing can be resumed

	stateName string
	state     *transferState // nil until it is locked

	mu  sync.Mutex
	log *os.File // the state file, to which lines are appended
}

// openFileDownload returns a blob's download into a file. It must be closed.
func (c *Client) openFileDownload(account, name, path string, o DownloadOptions) (*fileDownload, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s, err := c.source(account, name, o.GetOptions)
	if err != nil {
		return nil, err
	}
	root, err := openFolder(o.Root, filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("client: download a file: %w", err)
	}
	base, target := filepath.Base(path), c.URL()+"\x00"+account+"\x00"+name
	return &fileDownload{
		download: download{source: s, options: o}, account: account, root: root, base: base,
		part: temporaryName(base, target, downloadPartSuffix), stateName: temporaryName(base, target, downloadStateSuffix),
	}, nil
}

// lock locks the state file.
func (d *fileDownload) lock() (err error) {
	if d.state, err = lockTransferState(d.root, d.stateName); err != nil {
		return fmt.Errorf("client: download a file: %w", stateError(err))
	}
	return nil
}

// close unlocks the state file.
func (d *fileDownload) close() error {
	var err error
	if d.state != nil {
		err = d.state.unlock()
	}
	return errors.Join(err, d.root.Close())
}

// transfer resumes an earlier call's download, or begins one.
func (d *fileDownload) transfer(ctx context.Context) error {
	resumed, err := d.resume(ctx)
	if err == nil {
		err = d.attempt(ctx, resumed)
	}
	if resumed && errors.Is(err, ErrChanged) { // since the earlier call
		d.source.c.log.WarnContext(ctx, "A download is begun anew.", "error", err)
		if err = d.discard(); err == nil {
			d.source.etag = ""
			err = d.attempt(ctx, false)
		}
	}
	return err
}

// resume opens an earlier call's temporary file, and finds out which ranges it has. It reports
// whether the download can be continued.
func (d *fileDownload) resume(ctx context.Context) (bool, error) {
	text, err := d.state.load()
	if err != nil {
		return false, d.failed(err)
	}
	if text == nil {
		return false, nil
	}
	s, err := parseDownloadState(text)
	if err != nil || s.Service != d.source.c.URL() || s.Account != d.account || s.Name != d.source.name {
		d.source.c.log.InfoContext(ctx, "The state file of a download is of no use.", "error", err)
		return false, nil
	}
	b, err := d.source.c.Head(ctx, d.account, d.source.name)
	if err != nil {
		return false, err
	}
	if b.ETag != s.ETag || b.Size != s.Size || d.options.check(b) != nil {
		return false, nil
	}
	if d.options.Payment != nil && s.RangeSize%wire.ChunksetSize != 0 {
		return false, nil // two ranges would be charged for one chunkset
	}
	file, err := openOwn(d.root, d.part, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errForeign) {
		return false, nil
	}
	if err != nil {
		return false, d.failed(err)
	}
	d.file, d.w, d.source.etag, d.options.RangeSize = file, file, s.ETag, s.RangeSize
	if err := d.setBlob(b); err != nil {
		return false, err
	}
	return true, d.findPresent(ctx, s.ranges)
}

// findPresent reads the ranges that the temporary file should have. Those that have another
// checksum, as after a power cut, are not present.
func (d *fileDownload) findPresent(ctx context.Context, ranges map[int]uint64) error {
	return parallel(ctx, d.options.Concurrency, slices.Collect(maps.Keys(ranges)), func(ctx context.Context, i int) error {
		begin, end := d.bounds(i)
		s, err := sumRange(ctx, d.file, begin, end-begin, false)
		if errors.Is(err, ErrChanged) { // the file is shorter
			return nil
		}
		d.crcs[i], d.present[i] = s.crc, err == nil && s.crc == ranges[i]
		return err
	})
}

// attempt receives the missing ranges.
func (d *fileDownload) attempt(ctx context.Context, resumed bool) error {
	if !resumed {
		if d.first == nil {
			if err := d.begin(ctx); err != nil {
				return err
			}
		}
		d.whole = len(d.crcs) <= 1
		if err := d.create(); err != nil {
			d.closeFirst()
			return d.failed(err)
		}
	}
	if !d.whole {
		if err := d.openLog(); err != nil {
			d.closeFirst()
			return d.failed(err)
		}
	}
	return d.run(ctx)
}

// create creates the temporary file. Until it is complete, only this user may access it.
func (d *fileDownload) create() error {
	if err := removeIfExists(d.root, d.part); err != nil {
		return err
	}
	file, err := createOwn(d.root, d.part, os.O_RDWR)
	if err != nil {
		return err
	}
	d.file, d.w = file, file
	return file.Truncate(d.blob.Size)
}

// openLog writes the state file with the ranges that are present, and opens it for more.
func (d *fileDownload) openLog() error {
	text, err := json.Marshal(downloadState{
		Version: transferStateVersion, Service: d.source.c.URL(), Account: d.account, Name: d.source.name,
		ETag: d.blob.ETag, Size: d.blob.Size, RangeSize: d.options.RangeSize,
	})
	if err != nil {
		return err
	}
	text = append(text, '\n')
	for i, present := range d.present {
		if present {
			text = appendRange(text, i, d.crcs[i])
		}
	}
	if err := d.state.save(text); err != nil {
		return err
	}
	d.log, err = openOwn(d.root, d.state.name, os.O_WRONLY|os.O_APPEND)
	d.received = d.logRange
	return err
}

// logRange appends a range to the state file, and starts to write the range to disk. Neither is
// synced: after a power cut, the ranges' checksums decide.
func (d *fileDownload) logRange(index int, crc uint64) error {
	begin, end := d.bounds(index)
	startWriteback(d.file, begin, end-begin)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.log.Write(appendRange(nil, index, crc)); err != nil {
		return d.failed(err)
	}
	return nil
}

// abandon ends a download that has failed. If it may be resumed, the temporary file remains, and is
// removed otherwise.
func (d *fileDownload) abandon(err error) error {
	if d.whole || errors.Is(err, ErrChanged) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone) {
		return errors.Join(err, d.discard())
	}
	return errors.Join(err, d.closeFiles())
}

// prepare sets the temporary file's mode to a new file's. modes has the modes by folder; prepare
// adds the one that is missing.
func (d *fileDownload) prepare(modes map[string]os.FileMode) error {
	if !isCurrent(d.root, d.part, d.file) {
		return fmt.Errorf("%s: %w: it was replaced by another file", d.part, ErrChanged)
	}
	mode, known := modes[d.root.Name()]
	if !known {
		var err error
		if mode, err = newFileMode(d.root, d.part+replacementSuffix); err != nil {
			return err
		}
		modes[d.root.Name()] = mode
	}
	if err := share(d.file, mode); err != nil || !d.options.Restore {
		return err
	}
	return RestoreFile(d.root, d.part, d.blob.Metadata)
}

// rename renames the temporary file to the file's name. It must be durable.
func (d *fileDownload) rename() error {
	if err := d.closeFiles(); err != nil {
		return err
	}
	return d.root.Rename(d.part, d.base)
}

// discard removes the temporary file and the state file.
func (d *fileDownload) discard() error {
	if err := errors.Join(d.closeFiles(), removeIfExists(d.root, d.part), d.state.remove()); err != nil {
		return d.failed(err)
	}
	return nil
}

// closeFiles closes the files that are open.
func (d *fileDownload) closeFiles() error {
	var err error
	for _, f := range []**os.File{&d.file, &d.log} {
		if *f != nil {
			err = errors.Join(err, (*f).Close())
			*f = nil
		}
	}
	return err
}

func (d *fileDownload) failed(err error) error {
	return fmt.Errorf("client: download a file: %w", err)
}
