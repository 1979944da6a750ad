// Package operand parses the operands of commands: blobs on a server, and files on this machine.
package operand

import (
	"errors"
	"fmt"
	"strings"
)

// Stdio is the local operand that stands for standard input or output.
const Stdio = "-"

// Remote is a blob, a prefix of names, or a whole account, on a server.
type Remote struct {
	Context string // names the server; "" for the current one
	Account string // not empty; not validated otherwise
	Name    string // a blob's name or a prefix; "" for the whole account. It is opaque, and may contain "//" and ".."
}

// Folder reports whether the operand ends like a folder: it has no name, or a name that ends in
// "/". A blob cannot have such a name.
func (r Remote) Folder() bool { return r.Name == "" || strings.HasSuffix(r.Name, "/") }

// String returns the operand as ParseRemote parses it.
func (r Remote) String() string {
	text := r.Account + "/" + r.Name
	if r.Context != "" {
		text = r.Context + ":" + text
	}
	return text
}

// ParseRemote parses an operand where no local path can be meant: ACCOUNT/NAME, ACCOUNT/PREFIX/ or
// ACCOUNT on the current server, with or without a colon before it, or with CONTEXT: before it.
func ParseRemote(text string) (Remote, error) {
	account, name, _ := strings.Cut(text, "/")
	context, behind, colon := strings.Cut(account, ":")
	if colon {
		account = behind
	}
	switch {
	case text == "":
		return Remote{}, errors.New("the operand is empty: want ACCOUNT/NAME, such as team/photo.jpg")
	case colon && account == "" && strings.HasPrefix(name, "/"):
		return Remote{}, fmt.Errorf("%q is a URL: name the server by a context (sluice context add NAME URL), and write NAME:ACCOUNT/NAME", text)
	case account == "":
		return Remote{}, fmt.Errorf("%q has no account: want ACCOUNT/NAME, such as team/photo.jpg", text)
	case !colon:
		return Remote{Account: account, Name: name}, nil
	case context != "" && !IsContext(context) || strings.Contains(account, ":"):
		return Remote{}, fmt.Errorf("%q: want ACCOUNT/NAME, or CONTEXT:ACCOUNT/NAME with the name of a context", text)
	}
	return Remote{Context: context, Account: account, Name: name}, nil
}

// Operand is a copy's source or target: remote or local.
type Operand struct {
	Remote *Remote // nil if it is local
	Path   string  // a local file or folder, or Stdio; "" if it is remote
}

// IsStdio reports whether the operand stands for standard input or output.
func (o Operand) IsStdio() bool { return o.Remote == nil && o.Path == Stdio }

// String returns the operand as Parse parses it.
func (o Operand) String() string {
	switch {
	case o.Remote == nil:
		return o.Path
	case o.Remote.Context == "":
		return ":" + o.Remote.String()
	default:
		return o.Remote.String()
	}
}

// Parse parses an Operand where a local path can be meant. CONTEXT:ACCOUNT/NAME is remote, and
// :ACCOUNT/NAME is on the current server; everything else is local, until
// it is known to be remote. A context has at least two characters, so C:\file is local; so is
// ./team:file.
func Parse(text string) (Operand, error) {
	if text == "" {
		return Operand{}, errors.New("the operand is empty: want a file, a folder, -, ACCOUNT/NAME or CONTEXT:ACCOUNT/NAME")
	}
	context, rest, found := strings.Cut(text, ":")
	if !found || context != "" && !IsContext(context) {
		return Operand{Path: text}, nil
	}
	remote, err := ParseRemote(text)
	if err != nil && !strings.HasPrefix(rest, "//") {
		err = fmt.Errorf("%w; a local file of that name is ./%s", err, text)
	}
	if err != nil {
		return Operand{}, err
	}
	return Operand{Remote: &remote}, nil
}

// maxContext is how long a context's name may be.
const maxContext = 64

// IsContext reports whether name is a valid name for a context: 2 to 64 characters of a-z, A-Z,
// 0-9, ".", "_" and "-". The first is a letter or a digit.
func IsContext(name string) bool {
	if len(name) < 2 || len(name) > maxContext {
		return false
	}
	for i := range len(name) {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}
