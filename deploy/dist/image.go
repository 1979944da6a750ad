package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and the group of the process in a container, as in other images without a
// distribution.
const user = 65532

// config is the configuration of an image. A container's loopback addresses cannot be reached from
// outside it, so the service listens on all of the container's addresses, and the published port
// decides who can connect. Without arguments it is a local instance, which needs no keys.
func config(version string) v1.Config {
	return v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Env:          []string{"SLUICE_DATA=/data", "SLUICE_ADDR=0.0.0.0:9090", "SLUICE_S3_ADDR=0.0.0.0:9000", "SLUICE_URL=http://127.0.0.1:9090"},
		Entrypoint:   []string{"/sluice"},
		Cmd:          []string{"serve", "--open-to-network"},
		Volumes:      map[string]struct{}{"/data": {}},
		ExposedPorts: map[string]struct{}{"9090/tcp": {}, "9000/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", "/sluice", "health", "--quiet"}, Interval: 10 * time.Second, Timeout: 6 * time.Second, StartPeriod: 30 * time.Second, Retries: 3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "sluice",
			"org.opencontainers.image.description": "Blob storage with metered reads, and a local S3 server",
			"org.opencontainers.image.version":     version,
		},
	}
}

// writeImage writes a .tar with an OCI layout, which has an image for Linux on each architecture.
// A file with a path instead of an architecture is in each of them.
func writeImage(out, version string, created time.Time, files []pair) (err error) {
	system, err := systemFiles()
	if err != nil {
		return err
	}
	base, err := layerOf(system, created)
	if err != nil {
		return err
	}
	var common []pair
	index := v1.ImageIndex(empty.Index)
	for _, p := range files {
		if strings.HasPrefix(p.name, "/") {
			common = append(common, p)
		}
	}
	for _, p := range files {
		if strings.HasPrefix(p.name, "/") {
			continue
		}
		image, err := imageOf(p, common, base, version, created)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.name}},
		})
	}
	// The entry in index.json that names the image is the list of architectures.
	outer := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: mutate.IndexMediaType(index, types.OCIImageIndex),
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"org.opencontainers.image.ref.name": version,
			"io.containerd.image.name":          "docker.io/library/sluice:" + version,
		}},
	})
	folder, err := os.MkdirTemp("", "sluice-image")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if _, err := layout.Write(folder, outer); err != nil {
		return err
	}
	return writeLayout(out, folder, created)
}

// imageOf returns the image with a binary, whose pair is named by its architecture.
func imageOf(binary pair, common []pair, base v1.Layer, version string, created time.Time) (v1.Image, error) {
	var own []entry
	for _, p := range append(slices.Clone(common), pair{"/sluice", binary.file}) {
		body, mode, err := read(p.file)
		if err != nil {
			return nil, err
		}
		own = append(own, entry{tar.Header{Name: p.name[1:], Mode: int64(mode)}, body})
	}
	layer, err := layerOf(own, created)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), base, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Created, file.OS, file.Architecture, file.Config = v1.Time{Time: created}, "linux", binary.name, config(version)
	return mutate.ConfigFile(image, file)
}

// entry is a file or a folder in a layer.
type entry struct {
	header tar.Header
	body   []byte
}

func layerOf(entries []entry, modified time.Time) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.header.ModTime = modified
		if err := writeEntry(w, e.header, e.body); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
}

// systemFiles returns what a static binary needs of a system: users, the well-known certificate
// authorities and time zones, a folder for data, and one for temporary files.
func systemFiles() ([]entry, error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		// One that is valid with restrictions cannot be written as a plain certificate.
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	entries := []entry{
		{tar.Header{Name: "data/", Mode: 0o700, Uid: user, Gid: user}, nil},
		{tar.Header{Name: "tmp/", Mode: 0o1777}, nil},
		{tar.Header{Name: "etc/passwd", Mode: 0o644}, fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nsluice:x:%d:%d:sluice:/data:/sbin/nologin\n", user, user)},
		{tar.Header{Name: "etc/group", Mode: 0o644}, fmt.Appendf(nil, "root:x:0:\nsluice:x:%d:\n", user)},
		{tar.Header{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644}, roots.Bytes()},
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	zones, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(goroot)), "lib/time/zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	for _, zone := range zones.File {
		body, err := fs.ReadFile(zones, zone.Name)
		if strings.HasSuffix(zone.Name, "/") {
			continue
		}
		if err != nil {
			return nil, errors.Join(err, zones.Close())
		}
		entries = append(entries, entry{tar.Header{Name: "usr/share/zoneinfo/" + zone.Name, Mode: 0o644}, body})
	}
	return entries, zones.Close()
}

// writeLayout writes the files of an OCI layout to a .tar.
func writeLayout(out, folder string, modified time.Time) (err error) {
	var files []pair
	err = filepath.WalkDir(folder, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		inside, err := filepath.Rel(folder, name)
		files = append(files, pair{filepath.ToSlash(inside), name})
		return err
	})
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(f, modified, files), f.Close())
}
