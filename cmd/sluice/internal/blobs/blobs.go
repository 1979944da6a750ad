// Package blobs has the commands that store, read, list, change and delete blobs.
package blobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"time"

	"sluice/client"
	"sluice/client/folder"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// allBlobs returns an error if an operand is not a blob's name.
func allBlobs(operands []cli.RemoteOperand) error {
	for _, o := range operands {
		if o.Folder() {
			return cli.Usagef("%s is not the name of a blob: want ACCOUNT/NAME, such as team/photo.jpg", terminal.Name(o.String()))
		}
	}
	return nil
}

// head returns a blob's properties. Its error states that the blob does not exist, as the response
// to a HEAD has no text.
func head(ctx context.Context, from *client.Client, of operand.Remote) (client.Blob, error) {
	b, err := from.Head(ctx, of.Account, of.Name)
	if isMissing(err) {
		err = withBelow(ctx, from, of, cli.ExitWith(cli.ExitNotFound, errors.New("the blob does not exist")), "sluice ls lists them")
	}
	return b, err
}

// withBelow returns the error of a blob that does not exist, with advice if there are blobs below
// its name.
func withBelow(ctx context.Context, on *client.Client, of operand.Remote, err error, advice string) error {
	if isThere(on.List(ctx, of.Account, client.ListOptions{Prefix: of.Name + "/", PageSize: 1})) {
		return fmt.Errorf("%w; there are blobs below %s/: %s", err, terminal.Name(of.String()), advice)
	}
	return err
}

// isThere reports whether a list has an entry, false if the key cannot list.
func isThere[E any](list iter.Seq2[E, error]) bool {
	for _, err := range list {
		return err == nil
	}
	return false
}

// isMissing reports whether a HEAD's response means that there is no blob. A server of an earlier
// version does not state why its status is 404.
func isMissing(err error) bool {
	e, reported := errors.AsType[*client.Error](err)
	return reported && e.Status == http.StatusNotFound && (e.Code == "" || errors.Is(err, fs.ErrNotExist))
}

// listed returns a blob's properties, or nil if there is no such blob. A listing has more of them
// than a HEAD.
func listed(ctx context.Context, from *client.Client, of operand.Remote) (*client.Blob, error) {
	for e, err := range from.List(ctx, of.Account, client.ListOptions{Prefix: of.Name, Metadata: true, PageSize: 1}) {
		if err != nil {
			return nil, err
		}
		if e.Name == of.Name {
			return &e.Blob, nil
		}
		break
	}
	return nil, nil
}

// blobError returns a request's error with the blob.
func blobError(of operand.Remote, err error) error {
	return cli.About(terminal.Name(of.String()), err)
}

// printedBlob is a blob in JSON.
type printedBlob struct {
	Account            string            `json:"account"`
	Name               string            `json:"name"`
	Size               int64             `json:"size"`
	ETag               string            `json:"etag"`
	ContentType        string            `json:"contentType,omitempty"`
	Modified           time.Time         `json:"modified,omitzero"`
	Expires            time.Time         `json:"expires,omitzero"`
	SHA256             string            `json:"sha256,omitempty"` // hexadecimal
	CacheControl       string            `json:"cacheControl,omitempty"`
	ContentDisposition string            `json:"contentDisposition,omitempty"`
	ContentLanguage    string            `json:"contentLanguage,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`
	Retention          *retention        `json:"retention,omitempty"`
	Hold               bool              `json:"hold,omitempty"`
}

// retention is a version's retention in JSON.
type retention struct {
	Mode  string    `json:"mode"`
	Until time.Time `json:"until"`
}

func newPrintedBlob(account string, b client.Blob) printedBlob {
	p := printedBlob{
		Account: account, Name: b.Name, Size: b.Size, ETag: b.ETag, ContentType: b.ContentType, Modified: b.LastModified, Expires: b.Expires,
		CacheControl: b.CacheControl, ContentDisposition: b.ContentDisposition, ContentLanguage: b.ContentLanguage, Metadata: b.Metadata, Hold: b.Lock.Hold,
	}
	if b.Lock.Mode != "" {
		p.Retention = &retention{b.Lock.Mode, b.Lock.Until}
	}
	if b.SHA256 != nil {
		p.SHA256 = fmt.Sprintf("%x", b.SHA256)
	}
	return p
}

// formatTime returns a time for people, in the process's time zone.
func formatTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// eachOf calls fn for each operand, even if it fails for some, unless each other would have the
// same error. If it succeeds for some only, the error has the exit code for that.
func eachOf[T any](operands []T, fn func(T) error) error {
	var errs []error
	succeeded := false
	for _, o := range operands {
		err := fn(o)
		if err == nil {
			succeeded = true
			continue
		}
		errs = append(errs, err)
		if folder.ConcernsAll(err) || errors.Is(err, context.Canceled) {
			break
		}
	}
	err := errors.Join(errs...)
	if err != nil && succeeded {
		return cli.ExitWith(cli.ExitPartly, err)
	}
	return err
}

// nothingAt reports that no blob's name begins with a prefix: by an error, or by a remark if it is
// a whole account, which need not have blobs.
func nothingAt(prefix operand.Remote) (remark string, err error) {
	switch name := terminal.Name(prefix.String()); {
	case prefix.Name == "":
		return "there are no blobs in " + name, nil
	case prefix.Folder():
		return "", cli.ExitWith(cli.ExitNotFound, fmt.Errorf("there are no blobs below %s", name))
	default:
		return "", cli.ExitWith(cli.ExitNotFound, fmt.Errorf("there are no blobs with names that begin with %s", name))
	}
}

// printedUse counts the blobs below a prefix, the kept versions and their bytes, in JSON.
type printedUse struct {
	Account string `json:"account"`
	Prefix  string `json:"prefix"`
	Blobs   int64  `json:"blobs"`
	Bytes   int64  `json:"bytes"`

	Versions     int64 `json:"versions,omitempty"` // that are not current, marks included
	VersionBytes int64 `json:"versionBytes,omitempty"`
}

func useOf(a *client.Account) printedUse {
	return printedUse{Account: a.Account, Blobs: a.Blobs, Bytes: a.Bytes, Versions: a.Versions, VersionBytes: a.VersionBytes}
}

// counted returns the numbers of blobs and versions.
func (u *printedUse) counted() string {
	text := units.Count(u.Blobs, "blob")
	if u.Versions > 0 {
		text += fmt.Sprintf(", %s with %s", units.Count(u.Versions, "version"), units.Bytes(u.VersionBytes))
	}
	return text
}

// eachAccount calls fn with an operand, or with each account on the server if there is none. It
// remarks on a server without blobs.
func eachAccount(ctx context.Context, console *cli.Console, f cli.OutputFlags, on *client.Client, of operand.Remote, fn func(operand.Remote, *client.Account) error) error {
	if of.Account != "" {
		return fn(of, nil)
	}
	empty := true
	for a, err := range on.Accounts(ctx) {
		if errors.Is(err, client.ErrForbidden) || errors.Is(err, client.ErrUnauthorized) {
			err = fmt.Errorf("%w; only a key with admin for all accounts lists them: name an ACCOUNT", err)
		}
		if err == nil {
			err = fn(operand.Remote{Account: a.Account}, &a)
		}
		if err != nil {
			return err
		}
		empty = false
	}
	if empty {
		return f.Remark(console, "there are no blobs in any account")
	}
	return nil
}

// remarkNothingAt is nothingAt, and prints its remark.
func remarkNothingAt(console *cli.Console, f cli.OutputFlags, prefix operand.Remote) error {
	remark, err := nothingAt(prefix)
	if err != nil {
		return err
	}
	return f.Remark(console, remark)
}
