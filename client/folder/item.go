package folder

import (
	"path/filepath"
	"strings"

	"sluice/client"
)

// End is where files come from or go to: a Dir or a Prefix.
type End interface {
	isEnd()
}

// Dir is a local folder's path.
type Dir string

// Prefix is the blobs of one account with names that begin with Name.
type Prefix struct {
	Client  *client.Client // not nil
	Account string
	Name    string // "" for the whole account; otherwise a slash is added if it does not end in one
}

func (Dir) isEnd()    {}
func (Prefix) isEnd() {}

// name returns the prefix with its slash.
func (p Prefix) name() string {
	if p.Name == "" || strings.HasSuffix(p.Name, "/") {
		return p.Name
	}
	return p.Name + "/"
}

// item returns the blob with a name relative to the prefix.
func (p Prefix) item(name string) Item {
	return Item{Client: p.Client, Account: p.Account, Name: p.name() + name}
}

// has returns the blob that the prefix has by a name, which is another name in its own form, or the
// blob that it would have.
func (p Prefix) has(name string, stored map[string]client.Blob) Item {
	i := p.item(name)
	if b, exists := stored[name]; exists {
		i.Name = b.Name
	}
	return i
}

// Item is a local file or a blob.
type Item struct {
	Client  *client.Client // nil: a local file
	Account string         // the blob's
	Name    string         // the blob's, or the file's path
	Version string         // the id of a version that is read or deleted; "": the current one
}

// blobName returns the blob's name.
func (i Item) blobName() client.BlobName { return client.BlobName{Account: i.Account, Name: i.Name} }

// check returns client.ErrInvalid if no blob can have the name.
func (i Item) check() error {
	if i.Client == nil {
		return nil
	}
	return client.CheckName(i.Name)
}

// String returns a file's path, or ACCOUNT/NAME for a blob.
func (i Item) String() string {
	if i.Client == nil {
		return i.Name
	}
	return i.Account + "/" + i.Name
}

// localItem returns the file with a name relative to a folder.
func localItem(dir, name string) Item {
	return Item{Name: filepath.Join(dir, filepath.FromSlash(name))}
}
