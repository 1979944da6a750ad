package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// pair is an argument NAME=FILE.
type pair struct{ name, file string }

func parsePairs(args []string) (pairs []pair, err error) {
	for _, arg := range args {
		name, file, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=FILE", arg)
		}
		pairs = append(pairs, pair{name, file})
	}
	return pairs, nil
}

// writeArchive writes the files to out, whose suffix names the format. A file that its owner may
// execute is executable in the archive.
func writeArchive(out string, modified time.Time, files []pair) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if strings.HasSuffix(out, ".zip") {
		return writeZip(f, modified, files)
	}
	compressed, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(writeTar(compressed, modified, files), compressed.Close())
}

func writeZip(out io.Writer, modified time.Time, files []pair) error {
	w := zip.NewWriter(out)
	for _, p := range files {
		body, mode, err := read(p.file)
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: p.name, Method: zip.Deflate, Modified: modified}
		header.SetMode(mode)
		entry, err := w.CreateHeader(header)
		if err == nil {
			_, err = entry.Write(body)
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

func writeTar(out io.Writer, modified time.Time, files []pair) error {
	w := tar.NewWriter(out)
	for _, p := range files {
		body, mode, err := read(p.file)
		if err != nil {
			return err
		}
		if err := writeEntry(w, tar.Header{Name: p.name, Mode: int64(mode), ModTime: modified}, body); err != nil {
			return err
		}
	}
	return w.Close()
}

// writeEntry writes a file, or a folder if the name ends in a slash.
func writeEntry(w *tar.Writer, header tar.Header, body []byte) error {
	header.Size, header.Format = int64(len(body)), tar.FormatPAX
	header.Typeflag = tar.TypeReg
	if strings.HasSuffix(header.Name, "/") {
		header.Typeflag = tar.TypeDir
	}
	if err := w.WriteHeader(&header); err != nil {
		return err
	}
	_, err := w.Write(body)
	return err
}

// read returns a file's bytes, and its mode in a release: 0755 or 0644.
func read(name string) (body []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	mode = 0o644
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	body, err = os.ReadFile(name)
	return body, mode, err
}
