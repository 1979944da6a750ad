package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

//go:embed static
var static embed.FS

// pages maps each page's path to its title and script.
var pages = map[string]pageSource{
	"":    {"sluice console", "index.js"},
	"api": {"API · sluice", "reference.js"},
}

type pageSource struct{ title, script string }

// pageTemplate is the static file from which all pages are made.
const pageTemplate = "page.html"

// New reads the embedded files.
func New() (*Console, error) {
	c := &Console{pages: map[string]map[string]*file{}, assets: map[string]*file{}}
	all := sha256.New()
	err := fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		name = strings.TrimPrefix(name, "static/")
		all.Write(fmt.Appendf(nil, "%s %d\n", name, len(content)))
		all.Write(content)
		if c.assets[name], err = newFile(name, content); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	c.version = "assets-" + hex.EncodeToString(all.Sum(nil)[:8])
	page, err := template.New(pageTemplate).Parse(string(c.assets[pageTemplate].content))
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	delete(c.assets, pageTemplate)
	for at, source := range pages {
		c.pages[at] = map[string]*file{}
		for _, theme := range themes {
			if c.pages[at][theme], err = c.page(page, source, theme); err != nil {
				return nil, fmt.Errorf("console: %w", err)
			}
		}
	}
	return c, nil
}

// page returns a page with the paths of its assets. The page names all modules that its script
// imports, so that the browser fetches them together.
func (c *Console) page(page *template.Template, source pageSource, theme string) (*file, error) {
	var out bytes.Buffer
	err := page.Execute(&out, struct {
		Title, Theme, Assets, Script string
		Modules                      []string
	}{source.title, theme, c.version, source.script, c.modules(source.script)})
	if err != nil {
		return nil, err
	}
	return newFile(pageTemplate, out.Bytes())
}

// imported matches an import if the module is loaded with the importing one.
var imported = regexp.MustCompile(`(?m)^(?:import|\}) .*?"\./([\w/.-]+)";$|^import "\./([\w/.-]+)";$`)

// modules returns the module and all that it imports, directly or not, sorted.
func (c *Console) modules(first string) []string {
	found := []string{first}
	for i := 0; i < len(found); i++ {
		f := c.assets[found[i]]
		if f == nil {
			continue
		}
		for _, match := range imported.FindAllSubmatch(f.content, -1) {
			if name := path.Join(path.Dir(found[i]), string(match[1])+string(match[2])); !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return found
}
