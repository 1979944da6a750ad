package blobs

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
)

// versionFlag names a version. Commands that can read or delete one embed it.
type versionFlag struct {
	Version string `env:"-" placeholder:"ID" help:"Version of a single blob, as sluice ls --versions prints it. Default: the current one."`
}

// check returns an error if there is a version for anything but a single blob.
func (f versionFlag) check(operands int, recursive bool) error {
	_, err := hex.DecodeString(f.Version)
	switch {
	case f.Version == "":
	case operands != 1 || recursive:
		return cli.Usagef("--version %s: it is for a single blob", f.Version)
	case err != nil || len(f.Version) != 32:
		return cli.Usagef("--version %s: want the 32 hexadecimal digits that sluice ls --versions prints", terminal.Name(f.Version))
	}
	return nil
}

// find returns the version that is named, with its metadata.
func (f versionFlag) find(ctx context.Context, from *client.Client, of operand.Remote) (client.VersionEntry, error) {
	e, err := from.FindVersion(ctx, of.Account, of.Name, f.Version)
	if errors.Is(err, client.ErrNotFound) {
		err = errNoVersion
	}
	return e, err
}

var errNoVersion = cli.ExitWith(cli.ExitNotFound, errors.New("there is no such version of the blob; sluice ls --versions lists them"))

// printedVersion is a version in JSON.
type printedVersion struct {
	printedBlob
	Version string    `json:"version"`
	Current bool      `json:"current"`
	Deleted bool      `json:"deleted,omitempty"` // it marks that the blob was deleted
	By      string    `json:"by,omitempty"`      // the key's id that wrote it, or that deleted the blob
	Since   time.Time `json:"since,omitzero"`    // when it ceased to be current
	Until   time.Time `json:"until,omitzero"`    // until when it is kept
}

func newPrintedVersion(account string, e client.VersionEntry) printedVersion {
	return printedVersion{newPrintedBlob(account, e.Blob), e.Version, e.Current, e.Deleted, e.By, e.Since, e.Until}
}

// stateOf returns a version's state in a word, and its lock.
func stateOf(e client.VersionEntry) string {
	state := "kept"
	switch {
	case e.Deleted:
		state = "deleted"
	case e.Current:
		state = "current"
	}
	if lock := lockText(&e.Blob); lock != "" {
		state += ", " + lock
	}
	return state
}

// lockText returns until when a version cannot be deleted, or "".
func lockText(b *client.Blob) string {
	var texts []string
	if b.Lock.Mode != "" {
		texts = append(texts, fmt.Sprintf("%s until %s", b.Lock.Mode, formatTime(b.Lock.Until)))
	}
	if b.Lock.Hold {
		texts = append(texts, "legal hold")
	}
	return strings.Join(texts, ", ")
}
