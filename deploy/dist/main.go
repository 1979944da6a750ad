// Command dist writes parts of a release that the go command and nfpm do not write: archives
// and the container image. The same arguments and files yield the same bytes.
//
//	dist archive -out FILE NAME=FILE...          a .tar.gz, or a .zip
//	dist image -version V -out FILE ARCH=FILE... the image as an OCI layout in a .tar
//
// SOURCE_DATE_EPOCH is the time of all entries, in Unix seconds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("a command is missing: archive or image")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	out, version := flags.String("out", "", "output `file`"), flags.String("version", "", "of the release")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	files, err := parsePairs(flags.Args())
	if err != nil {
		return err
	}
	switch args[0] {
	case "archive":
		return writeArchive(*out, time.Unix(seconds, 0).UTC(), files)
	case "image":
		return writeImage(*out, *version, time.Unix(seconds, 0).UTC(), files)
	default:
		return fmt.Errorf("there is no command %q", args[0])
	}
}
