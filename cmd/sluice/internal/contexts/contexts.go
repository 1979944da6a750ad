// Package contexts keeps the servers that a user has named, and chooses the one that a command
// uses.
package contexts

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/cmd/sluice/internal/operand"
	"sluice/internal/secretfile"
)

// DefaultURL is the server for commands that name none: a local instance.
const DefaultURL = "http://localhost:9090"

// Context is a server with a name.
type Context struct {
	URL     string `yaml:"url"`
	Key     string `yaml:"key,omitempty"`      // API key; "" for none
	KeyFile string `yaml:"key-file,omitempty"` // absolute path of the API key's file; "" for none
}

// List is the content of a file of contexts.
type List struct {
	Current  string             `yaml:"current,omitempty"` // the context that is used if none is named; "" for none
	Contexts map[string]Context `yaml:"contexts,omitempty"`
}

// ErrUnknown is returned if there is no context with a name.
var ErrUnknown = errors.New("there is no such context")

// unknown returns ErrUnknown for a name, with the remedy.
func (l *List) unknown(name string) error {
	if len(l.Contexts) == 0 {
		return fmt.Errorf("%w: %s (there are none yet: sluice context add NAME URL)", ErrUnknown, name)
	}
	return fmt.Errorf("%w: %s (there are %s)", ErrUnknown, name, strings.Join(l.Names(), ", "))
}

// Names returns the contexts' names in byte order.
func (l *List) Names() []string {
	names := []string{}
	for name := range l.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Add adds a context. The first one becomes the current one. It returns an error if the name is in
// use, unless replace is set.
func (l *List) Add(name string, c Context, replace bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	if _, exists := l.Contexts[name]; exists && !replace {
		return fmt.Errorf("the context %s exists already: use --replace to change it", name)
	}
	if l.Contexts == nil {
		l.Contexts = map[string]Context{}
	}
	if len(l.Contexts) == 0 {
		l.Current = name
	}
	l.Contexts[name] = c
	return nil
}

// Use makes a context the current one. It returns ErrUnknown if there is no such context.
func (l *List) Use(name string) error {
	if _, exists := l.Contexts[name]; !exists {
		return l.unknown(name)
	}
	l.Current = name
	return nil
}

// Remove removes a context. If it is the current one, there is none afterwards. It returns
// ErrUnknown if there is no such context.
func (l *List) Remove(name string) error {
	if _, exists := l.Contexts[name]; !exists {
		return l.unknown(name)
	}
	delete(l.Contexts, name)
	if l.Current == name {
		l.Current = ""
	}
	return nil
}

func checkName(name string) error {
	if !operand.IsContext(name) {
		return fmt.Errorf(`%q is not a name of a context: want 2 to 64 of A-Z, a-z, 0-9, ".", "_" and "-", of which the first is a letter or a digit`, name)
	}
	return nil
}

func (c Context) check() error {
	if err := CheckURL(c.URL); err != nil {
		return err
	}
	if c.Key != "" && c.KeyFile != "" {
		return errors.New("a context has a key or a key file, not both")
	}
	return checkKey(c.Key)
}

// CheckURL returns an error unless text is a server's base URL: http or https, a host, and
// optionally a path. The error does not repeat a password.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("want the URL of a server, such as %s or https://blobs.example.org/sluice, not %q", DefaultURL, redacted(text))
	case u.User != nil:
		return errors.New("the URL of a server has no user or password: put the API key into SLUICE_KEY, a file or a context")
	case strings.ContainsAny(text, "?#"):
		return fmt.Errorf("the URL of a server has neither a query nor a fragment: %q", redacted(text))
	}
	return nil
}

// redacted returns a text that may be a URL without the part before an @.
func redacted(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return "...@" + text[i+1:]
	}
	return text
}

// checkKey returns an error if a key cannot be sent in a header. The error does not repeat it.
func checkKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("an API key consists of visible ASCII characters")
	}
	return nil
}

// readKey returns the key in a file, without white space around it. The file must not be accessible
// to other users.
func readKey(name string) (string, error) {
	text, err := secretfile.Read(name)
	if err != nil {
		return "", fmt.Errorf("cannot read the API key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("the file %s has no API key", name)
	}
	if err := checkKey(key); err != nil {
		return "", fmt.Errorf("the file %s: %w", name, err)
	}
	return key, nil
}

// DefaultFile returns the path of the current user's file of contexts.
func DefaultFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the folder for contexts: %w", err)
	}
	return filepath.Join(dir, "sluice", "contexts.yaml"), nil
}
