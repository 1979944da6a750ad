package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"sluice/client/folder/tree"
	"sluice/wire"
)

// PutFile stores a file. Its content type is guessed if the options have none. A file that does not
// fit into a part can be resumed: if an error interrupts PutFile, or the context or the process
// ends, a later call for the same file, account and name with the same options sends only the parts
// that the server does not have. The upload's state is in a file with mode 0600 beside the file, or
// at PutOptions.StateFile. It is removed at the end. The server aborts an upload when no part
// arrives for 24 hours.
//
// The blob always has the bytes that the file has during the last call: all of them are read for
// the checksum with which the upload is completed. A new upload begins if they are not those that
// were sent, if the file has another size or modification time, or if the upload is gone; the one
// before is aborted.
//
// PutFile returns ErrChanged if the file changes during the call, and ErrBusy if another call with
// the same state file is in progress. If the folder cannot be written, the file is sent without a
// state file, unless PutOptions.StateFile is set, and cannot be resumed. A file that is not
// regular, such as a pipe, or that has not as many bytes as its size, is a stream: see Put.
func (c *Client) PutFile(ctx context.Context, account, name, path string, o PutOptions) (Blob, error) {
	if err := o.check(); err != nil {
		return Blob{}, err
	}
	f, err := openFile(ctx, path)
	if err != nil {
		return Blob{}, fmt.Errorf("client: put a file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return Blob{}, fmt.Errorf("client: put a file: %w", err)
	}
	if !info.Mode().IsRegular() {
		defer context.AfterFunc(ctx, func() { _ = f.Close() })() // ends a read of a pipe without bytes
		o.ContentType = cmp.Or(o.ContentType, ContentType(name, nil))
		return c.putStream(ctx, account, name, f, &o)
	}
	if o.ContentType == "" {
		if o.ContentType, err = ContentTypeOf(name, f); err != nil {
			return Blob{}, fmt.Errorf("client: put a file: %w", err)
		}
	}
	if size, err := tree.SizeOf(f); err != nil {
		return Blob{}, fmt.Errorf("client: put a file: %w", err)
	} else if size < 0 && unchanged(f, info) == nil {
		b, err := c.putStream(ctx, account, name, f, &o)
		return b, errors.Join(err, unchanged(f, info))
	}
	p := newProgress(o.Progress, info.Size())
	defer p.end()
	u := &fileUpload{c: c, account: account, name: name, size: info.Size(), modified: info.ModTime(), options: &o, progress: p}
	u.send = func(ctx context.Context, up *upload, present map[int]int64) (Blob, error) {
		up.check = func() error { return unchanged(f, info) }
		return up.sendSection(ctx, io.NewSectionReader(f, 0, u.size), present)
	}
	if info.Size() <= o.partSize(info.Size()) {
		p.begin(0)
		b, err := c.putWhole(ctx, account, name, f, info.Size(), &o, p)
		if err == nil {
			err = unchanged(f, info)
		}
		return b, err
	}
	if err := u.openState(path); err != nil {
		return Blob{}, fmt.Errorf("client: put a file: %w", stateError(err))
	}
	b, err := u.run(ctx)
	return b, errors.Join(err, u.closeState())
}

// openFile opens a file. A named pipe is opened when it has a writer, which may never be, so
// openFile also returns when the context ends.
func openFile(ctx context.Context, path string) (*os.File, error) {
	var f *os.File
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		f, err = os.Open(path)
	}()
	select {
	case <-opened:
		return f, err
	case <-ctx.Done():
		return nil, ctx.Err() // if a writer comes, the garbage collector closes the file
	}
}

// ForgetUpload removes an interrupted PutFile's remains for the same file, account and name: the
// state file, and the upload unless it was completed. It is for callers that do not repeat the
// call, for example because the blob has the file's bytes already. Among the options it uses only
// StateFile. It returns ErrBusy if a call with the same state file is in progress.
func (c *Client) ForgetUpload(ctx context.Context, account, name, path string, o PutOptions) error {
	u := &fileUpload{c: c, account: account, name: name, options: &o}
	stateFile := u.stateFile(path)
	root, err := os.OpenRoot(filepath.Dir(stateFile))
	if err != nil {
		return fmt.Errorf("client: forget an upload: %w", err)
	}
	base := filepath.Base(stateFile)
	if !leftBehind(root, base) {
		return root.Close()
	}
	if u.state, err = lockTransferState(root, base); errors.Is(err, errForeign) {
		return root.Close() // it is left to whom it belongs
	}
	if err != nil {
		return errors.Join(fmt.Errorf("client: forget an upload: %w", err), root.Close())
	}
	return errors.Join(u.abandon(ctx), u.closeState())
}

// abandon aborts an earlier call's upload, unless it was completed, and removes the state file.
func (u *fileUpload) abandon(ctx context.Context) error {
	text, err := u.state.load()
	if err != nil {
		return fmt.Errorf("client: forget an upload: the state file cannot be read: %w", err)
	}
	if s, err := parseUploadState(text); err == nil && s.Service == u.c.URL() {
		err := u.c.AbortUpload(ctx, s.UploadID)
		if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrGone) && !errors.Is(err, ErrConflict) {
			return err
		}
	}
	return u.forget()
}

// fileUpload transfers a file, or another service's blob, in parts.
type fileUpload struct {
	c             *Client
	account, name string
	size          int64     // when the transfer began
	modified      time.Time // the same
	etag          string    // if it is a blob
	options       *PutOptions
	progress      *progress
	state         *transferState // nil: the upload cannot be resumed

	// send sends the parts that are not present, and completes the upload.
	send func(ctx context.Context, up *upload, present map[int]int64) (Blob, error)
}

// stateFile returns a state file's path for the file at path.
func (u *fileUpload) stateFile(path string) string {
	if u.options.StateFile != "" {
		return u.options.StateFile
	}
	target := u.c.URL() + "\x00" + u.account + "\x00" + u.name
	return filepath.Join(filepath.Dir(path), temporaryName(filepath.Base(path), target, uploadStateSuffix))
}

// openState locks the state file.
func (u *fileUpload) openState(path string) error {
	stateFile := u.stateFile(path)
	root, err := os.OpenRoot(filepath.Dir(stateFile))
	if err == nil {
		if u.state, err = lockTransferState(root, filepath.Base(stateFile)); err != nil {
			err = errors.Join(err, root.Close())
		}
	}
	if err != nil && u.options.StateFile == "" && !errors.Is(err, ErrBusy) {
		u.c.log.Warn("An upload cannot be resumed, because its state file cannot be written.", "error", err)
		return nil
	}
	return err
}

// closeState unlocks the state file.
func (u *fileUpload) closeState() error {
	if u.state == nil {
		return nil
	}
	if err := errors.Join(u.state.unlock(), u.state.root.Close()); err != nil {
		return fmt.Errorf("client: put a file: the state file cannot be unlocked: %w", err)
	}
	return nil
}

// run continues an earlier call's upload, or begins one. If it turns out that it cannot be
// completed as it is, another is begun, once.
func (u *fileUpload) run(ctx context.Context) (Blob, error) {
	up, present, err := u.resume(ctx)
	if err != nil {
		return Blob{}, err
	}
	u.progress.begin(u.left(up, present))
	for attempt := 1; ; attempt++ {
		if up == nil {
			if up, err = u.begin(ctx); err != nil {
				return Blob{}, err
			}
		}
		b, err := u.send(ctx, up, present)
		switch {
		case err == nil:
			return b, u.forget()
		case attempt == 1 && outdated(err):
			u.c.log.WarnContext(ctx, "An upload is begun anew.", "error", err)
			u.progress.restart()
			up.abort(ctx)
			up, present = nil, nil
		case u.state == nil || !resumable(err):
			up.abort(ctx)
			return Blob{}, errors.Join(err, u.forget())
		default:
			return Blob{}, err
		}
	}
}

// left returns how many bytes are in parts that an earlier call has left at the server.
func (u *fileUpload) left(up *upload, present map[int]int64) (n int64) {
	for i, length := range present {
		if up.has(present, i, u.size) {
			n += length
		}
	}
	return n
}

// begin begins an upload and saves its state.
func (u *fileUpload) begin(ctx context.Context) (*upload, error) {
	up, err := u.c.beginUpload(ctx, u.account, u.name, u.options.partSize(u.size), u.options, u.progress)
	if err != nil || u.state == nil {
		return up, err
	}
	text, err := json.MarshalIndent(u.newState(up.id), "", "  ")
	if err == nil {
		err = u.state.save(append(text, '\n'))
	}
	if err != nil {
		up.abort(ctx)
		return nil, fmt.Errorf("client: put a file: the state file cannot be written: %w", err)
	}
	return up, nil
}

// newState returns the state for an upload that this call has begun or would begin.
func (u *fileUpload) newState(id string) *uploadState {
	return &uploadState{
		Version: transferStateVersion, Service: u.c.URL(), UploadID: id, Begun: time.Now().UTC(),
		Begin: u.options.beginJSON(u.account, u.name, u.options.partSize(u.size)),
		Size:  u.size, Modified: u.modified.UTC(), ETag: u.etag,
	}
}

// resume returns an earlier call's upload and the parts that the server has. It returns nil if
// there is none that can be continued.
func (u *fileUpload) resume(ctx context.Context) (*upload, map[int]int64, error) {
	if u.state == nil {
		return nil, nil, nil
	}
	text, err := u.state.load()
	if err != nil {
		return nil, nil, fmt.Errorf("client: put a file: the state file cannot be read: %w", err)
	}
	if text == nil {
		return nil, nil, nil
	}
	s, err := parseUploadState(text)
	if err != nil || s.Service != u.c.URL() {
		u.c.log.InfoContext(ctx, "The state file of an upload is of no use.", "error", err)
		return nil, nil, nil
	}
	up := u.c.existingUpload(s.UploadID, u.name, *s.Begin.RawPartSize, u.options, u.progress)
	if !s.resumes(u.newState("")) {
		u.c.log.InfoContext(ctx, "An upload is begun anew, because the file or the options have changed.")
		up.abort(ctx) // its state file is replaced, so nothing knows it any more
		return nil, nil, nil
	}
	state, present, err := up.state(ctx)
	switch {
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case state == "open":
		return up, present, nil
	case state == "committed":
		return u.resumeCommitted(ctx, up)
	}
	return nil, nil, nil
}

// resumeCommitted returns a committed upload with all its parts, to compare only the checksum. It
// returns nil if there is no blob any more.
func (u *fileUpload) resumeCommitted(ctx context.Context, up *upload) (*upload, map[int]int64, error) {
	b, err := u.c.Head(ctx, u.account, u.name)
	switch {
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrGone):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	up.stored = b.ETag
	present := map[int]int64{}
	for i := range up.parts(u.size) {
		present[i] = up.partLength(i, u.size)
	}
	return up, present, nil
}

// unchanged returns ErrChanged if a file was changed or replaced since the beginning.
func unchanged(f *os.File, info fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return fmt.Errorf("client: put a file: %w", err)
	}
	if now.Size() != info.Size() || !now.ModTime().Equal(info.ModTime()) {
		return fmt.Errorf("client: put a file: %w: its size or modification time differs from the beginning", ErrChanged)
	}
	return nil
}

// forget removes the state file.
func (u *fileUpload) forget() error {
	if u.state == nil {
		return nil
	}
	if err := u.state.remove(); err != nil {
		return fmt.Errorf("client: put a file: the state file cannot be removed: %w", err)
	}
	return nil
}

// outdated reports whether an upload cannot be completed, and another may be: it is gone, was
// completed with other bytes, or has parts of other bytes.
func outdated(err error) bool {
	if errors.Is(err, errStored) {
		return true
	}
	e, reported := errors.AsType[*Error](err)
	if !reported {
		return false
	}
	switch e.Code {
	case wire.CodeTotalMismatch, wire.CodePartsMissing, wire.CodePartSize:
		return true
	}
	return hasEnded(err, wire.EndedUpload)
}

// resumable reports whether a later call may complete an upload that failed with err.
func resumable(err error) bool {
	return !outdated(err) && !errors.Is(err, ErrChanged) && !errors.Is(err, ErrPreconditionFailed) && !errors.Is(err, ErrInvalid)
}
