package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"sluice/internal/secretfile"
	"sluice/internal/vfs"
)

// Load reads a file of contexts. A file that does not exist contains none. It decides where keys
// are sent, so it must belong to this user or root. If it contains a key, other users must not be
// able to access it.
func Load(name string) (*List, error) {
	text, info, err := read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return &List{}, nil
	}
	if err == nil {
		err = secretfile.CheckOwner(name, info)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the contexts: %w", err)
	}
	list := &List{}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the file of contexts %s: %s: correct or remove it", name, oneLine(err))
	}
	if err := list.check(); err != nil {
		return nil, fmt.Errorf("the file of contexts %s: %w", name, err)
	}
	for _, c := range list.Contexts {
		if c.Key == "" {
			continue
		}
		if err := secretfile.Check(name, info); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// read returns a file's content and properties.
func read(name string) (_ []byte, _ fs.FileInfo, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(f)
	return text, info, err
}

// oneLine returns the YAML parser's message, which may have several lines.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (l *List) check() error {
	for _, name := range l.Names() {
		if err := checkName(name); err != nil {
			return err
		}
		if err := l.Contexts[name].check(); err != nil {
			return fmt.Errorf("the context %s: %w", name, err)
		}
	}
	if _, exists := l.Contexts[l.Current]; l.Current != "" && !exists {
		return fmt.Errorf("current: %w", l.unknown(l.Current))
	}
	return nil
}

// Update changes a file of contexts: it reads it, calls change and replaces it if change returns
// nil. A reader sees the file before or after the change, even after a power failure, and
// concurrent updates do not overwrite each other: it returns an error while another runs. The file
// and its folder are created, for their owner alone, if they do not exist.
func Update(name string, change func(*List) error) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("cannot create the folder for contexts: %w", err)
	}
	lock, err := vfs.LockFile(name + ".lock")
	if errors.Is(err, vfs.ErrLocked) {
		return errors.New("another command is changing the contexts: try again")
	}
	if err != nil {
		return fmt.Errorf("cannot lock the contexts: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	list, err := Load(name)
	if err != nil {
		return err
	}
	if err := change(list); err != nil {
		return err
	}
	text, err := yaml.Marshal(list)
	if err != nil {
		return err
	}
	if err := secretfile.Replace(name, text); err != nil {
		return fmt.Errorf("cannot write the contexts: %w", err)
	}
	return nil
}
