package cli

import (
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/blob"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// RemoteOperand is an operand on a server: ACCOUNT/NAME, ACCOUNT/PREFIX/ or ACCOUNT, which may have
// a context and a colon before it.
type RemoteOperand struct{ operand.Remote }

// UnmarshalText parses the operand.
func (r *RemoteOperand) UnmarshalText(text []byte) (err error) {
	if r.Remote, err = operand.ParseRemote(string(text)); err != nil {
		return err
	}
	return checkRemote(r.Remote)
}

// checkRemote returns an error for an operand that no server accepts.
func checkRemote(r operand.Remote) error {
	_, err := blob.ParseAccount(r.Account)
	if err == nil && !r.Folder() {
		err = blob.CheckName(r.Name)
	}
	if err != nil {
		return fmt.Errorf("%s: %w: want ACCOUNT/NAME, such as team/photo.jpg", terminal.Name(r.String()), err)
	}
	return nil
}

// Decode implements kong.MapperValue.
func (r *RemoteOperand) Decode(ctx *kong.DecodeContext) error { return decodeText(ctx, r) }

// RemoteOrAll is a RemoteOperand, or CONTEXT: or a single colon for all accounts.
type RemoteOrAll struct{ operand.Remote }

// UnmarshalText parses the operand.
func (r *RemoteOrAll) UnmarshalText(text []byte) error {
	context, all := strings.CutSuffix(string(text), ":")
	if all && (context == "" || operand.IsContext(context)) {
		r.Remote = operand.Remote{Context: context}
		return nil
	}
	var o RemoteOperand
	err := o.UnmarshalText(text)
	r.Remote = o.Remote
	return err
}

// Decode implements kong.MapperValue.
func (r *RemoteOrAll) Decode(ctx *kong.DecodeContext) error { return decodeText(ctx, r) }

// LocalOrRemote is an operand for a command that copies.
type LocalOrRemote struct {
	operand.Operand
	Assumed bool // set by Resolve if it made the operand remote
}

// UnmarshalText parses the operand.
func (o *LocalOrRemote) UnmarshalText(text []byte) (err error) {
	if o.Operand, err = operand.Parse(string(text)); err == nil && o.Remote != nil {
		err = checkRemote(*o.Remote)
	}
	return err
}

// Decode implements kong.MapperValue.
func (o *LocalOrRemote) Decode(ctx *kong.DecodeContext) error { return decodeText(ctx, o) }

// MayBeRemote returns the blob or prefix for which a path could also be meant, if there is one.
func MayBeRemote(path string) (r operand.Remote, ok bool) {
	r, err := operand.ParseRemote(path)
	return r, err == nil && checkRemote(r) == nil
}

// Resolve decides which operands of a copy without a colon are remote. If another operand has a
// colon, none is: the copy has its remote side. Otherwise ACCOUNT/NAME is, unless something in the
// current folder has the account's name.
func Resolve(all ...*LocalOrRemote) {
	for _, o := range all {
		if o.Remote != nil {
			return
		}
	}
	for _, o := range all {
		remote, ok := MayBeRemote(o.Path)
		if !ok || !strings.Contains(o.Path, "/") {
			continue
		}
		if _, err := os.Lstat(remote.Account); errors.Is(err, fs.ErrNotExist) {
			o.Operand, o.Assumed = operand.Operand{Remote: &remote}, true
		}
	}
}

// Below returns the blob or prefix with a name relative to a folder.
func Below(to operand.Remote, name string) operand.Remote {
	to.Name += name
	return to
}

// AsFolder returns a prefix that ends in a slash, unless it is a whole account.
func AsFolder(r operand.Remote) operand.Remote {
	if !r.Folder() {
		r.Name += "/"
	}
	return r
}

// BaseOf returns the part behind the last slash in a blob's name.
func BaseOf(name string) string { return path.Base("/" + name) }

// KeptName returns the name that one of several operands keeps: the part behind the last slash, or
// the account.
func KeptName(r operand.Remote) string {
	if name := strings.TrimSuffix(r.Name, "/"); name != "" {
		return BaseOf(name)
	}
	return r.Account
}

// Sources are the operands before the last one, at least one of them. T is string, or
// implements encoding.TextUnmarshaler.
type Sources[T any] struct{ All []T }

// Decode implements kong.MapperValue.
func (s *Sources[T]) Decode(ctx *kong.DecodeContext) error {
	for n := max(1, ctx.Scan.Len()-1); n > 0 && ctx.Scan.Peek().IsValue(); n-- {
		text, err := PopText(ctx)
		if err != nil {
			return err
		}
		var value T
		switch to := any(&value).(type) {
		case *string:
			*to = text
		case encoding.TextUnmarshaler:
			if err := to.UnmarshalText([]byte(text)); err != nil {
				return err
			}
		}
		s.All = append(s.All, value)
	}
	return nil
}

// PopText returns the next value with all its bytes. Kong replaces those that are not UTF-8, so
// that it would name another file or blob.
func PopText(ctx *kong.DecodeContext) (text string, err error) {
	exact, isText := ctx.Scan.Peek().Value.(string)
	if err := ctx.Scan.PopValueInto("value", &text); err != nil || !isText {
		return text, err
	}
	return exact, nil
}

// decodeText sets an operand.
func decodeText(ctx *kong.DecodeContext, target encoding.TextUnmarshaler) error {
	text, err := PopText(ctx)
	if err != nil {
		return err
	}
	return target.UnmarshalText([]byte(text))
}
