package contexts

import (
	"errors"
	"fmt"

	"sluice/cmd/sluice/internal/operand"
)

// Server is a server that a command uses.
type Server struct {
	Context string // its name; "" if it was named by its URL
	URL     string
	Key     string // API key; "" for none
	Source  string // where the URL is from, such as --url or the current context, for messages
}

// Choice names the server that a command should use. Flags are preferred to variables.
type Choice struct {
	URL     string // --url
	Context string // --context
	KeyFile string // --key-file

	Getenv func(name string) string
}

// The environment variables that name a server and its key.
const (
	EnvURL     = "SLUICE_URL"
	EnvContext = "SLUICE_CONTEXT"
	EnvKey     = "SLUICE_KEY"
	EnvKeyFile = "SLUICE_KEY_FILE"
)

// Choose returns a command's server: the first that is set of --url or --context, SLUICE_URL or
// SLUICE_CONTEXT, and the current context, or else DefaultURL. load is called only if a context is
// needed.
//
// The key is the first of these: --key-file; the context's key, if a context names the server;
// SLUICE_KEY or SLUICE_KEY_FILE. So a context's key is sent to its own server only.
func (c Choice) Choose(load func() (*List, error)) (Server, error) {
	s, err := c.server(load)
	if err != nil {
		return Server{}, err
	}
	if err := CheckURL(s.URL); err != nil {
		return Server{}, fmt.Errorf("%s: %w", s.Source, err)
	}
	if c.KeyFile != "" {
		if s.Key, err = readKey(c.KeyFile); err != nil {
			return Server{}, fmt.Errorf("--key-file: %w", err)
		}
	}
	if s.Key == "" {
		s.Key, err = c.keyOfEnvironment()
	}
	return s, err
}

func (c Choice) server(load func() (*List, error)) (Server, error) {
	url, context := c.Getenv(EnvURL), c.Getenv(EnvContext)
	switch {
	case c.URL != "" && c.Context != "":
		return Server{}, errors.New("--url and --context both name a server: use one of them")
	case c.URL != "":
		return Server{URL: c.URL, Source: "--url"}, nil
	case c.Context != "":
		return named(c.Context, "--context", load)
	case url != "" && context != "":
		return Server{}, fmt.Errorf("%s and %s both name a server: unset one of them, or use --url or --context", EnvURL, EnvContext)
	case url != "":
		return Server{URL: url, Source: EnvURL}, nil
	case context != "":
		return named(context, EnvContext, load)
	}
	list, err := load()
	if err != nil {
		return Server{}, err
	}
	if list.Current == "" {
		return Server{URL: DefaultURL, Source: "the default"}, nil
	}
	return list.server(list.Current, "the current context, "+list.Current)
}

// Named returns the server of the context that an operand names, with the context's key.
func Named(name string, load func() (*List, error)) (Server, error) {
	s, err := named(name, "the context "+name, load)
	if err != nil {
		return Server{}, err
	}
	return s, nil
}

func named(name, source string, load func() (*List, error)) (Server, error) {
	if !operand.IsContext(name) {
		return Server{}, fmt.Errorf("%s: %w", source, checkName(name))
	}
	list, err := load()
	if err != nil {
		return Server{}, err
	}
	return list.server(name, source)
}

func (l *List) server(name, source string) (Server, error) {
	c, exists := l.Contexts[name]
	if !exists {
		return Server{}, fmt.Errorf("%s: %w", source, l.unknown(name))
	}
	s := Server{Context: name, URL: c.URL, Key: c.Key, Source: source}
	if c.KeyFile != "" {
		key, err := readKey(c.KeyFile)
		if err != nil {
			return Server{}, fmt.Errorf("%s: %w", source, err)
		}
		s.Key = key
	}
	return s, nil
}

func (c Choice) keyOfEnvironment() (string, error) {
	if key := c.Getenv(EnvKey); key != "" {
		if err := checkKey(key); err != nil {
			return "", fmt.Errorf("%s: %w", EnvKey, err)
		}
		return key, nil
	}
	if name := c.Getenv(EnvKeyFile); name != "" {
		key, err := readKey(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w", EnvKeyFile, err)
		}
		return key, nil
	}
	return "", nil
}
