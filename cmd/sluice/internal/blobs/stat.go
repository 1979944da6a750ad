package blobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// Stat prints the properties of blobs.
type Stat struct {
	Blobs []cli.RemoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME. Several are possible."`

	versionFlag
	cli.ServerFlags
	cli.OutputFlags
}

// Run prints the properties.
func (c *Stat) Run(ctx context.Context, console *cli.Console) error {
	from, err := c.ClientOf(console, c.Blobs...)
	if err != nil {
		return err
	}
	if err := errors.Join(allBlobs(c.Blobs), c.check(len(c.Blobs), false)); err != nil {
		return err
	}
	return eachOf(c.Blobs, func(of cli.RemoteOperand) error {
		if c.Version != "" {
			return c.printVersion(ctx, console, from, of.Remote)
		}
		b, err := describe(ctx, from, of.Remote)
		if err != nil {
			return blobError(of.Remote, err)
		}
		return c.Facts(console, newPrintedBlob(of.Account, b), blobFacts(of.Remote, b))
	})
}

// printVersion prints the version's properties.
func (c *Stat) printVersion(ctx context.Context, console *cli.Console, from *client.Client, of operand.Remote) error {
	e, err := c.find(ctx, from, of)
	if err == nil && !e.Deleted {
		var b client.Blob
		b, err = from.HeadVersion(ctx, of.Account, of.Name, e.Version)
		e.SHA256 = b.SHA256
	}
	if err != nil {
		return blobError(of, err)
	}
	if e.Deleted {
		e.Since = time.Time{} // it is its own time
	}
	facts := append(blobFacts(of, e.Blob), [2]string{"version", e.Version}, [2]string{"state", stateOf(e)}, [2]string{"by", e.By})
	for _, t := range []struct {
		title string
		at    time.Time
	}{{"current until", e.Since}, {"kept until", e.Until}} {
		if !t.at.IsZero() {
			facts = append(facts, [2]string{t.title, formatTime(t.at)})
		}
	}
	return c.Facts(console, newPrintedVersion(of.Account, e), facts)
}

// describe returns a blob's properties, also those that a listing has and a HEAD has not, if the
// key permits it.
func describe(ctx context.Context, from *client.Client, of operand.Remote) (client.Blob, error) {
	b, err := head(ctx, from, of)
	if err != nil {
		return b, err
	}
	listed, err := listed(ctx, from, of)
	if errors.Is(err, client.ErrForbidden) || errors.Is(err, client.ErrUnauthorized) || err == nil && listed == nil {
		return b, nil
	}
	if err == nil && listed.LastModified.Truncate(time.Second).Equal(b.LastModified) {
		b.CacheControl = listed.CacheControl
	}
	return b, err
}

// blobFacts returns a blob's names and values.
func blobFacts(of operand.Remote, b client.Blob) [][2]string {
	facts := [][2]string{
		{"blob", terminal.Name(of.String())},
		{"size", fmt.Sprintf("%s (%s)", units.Count(b.Size, "byte"), units.Bytes(b.Size))},
		{"etag", b.ETag},
		{"content type", b.ContentType},
		{"modified", formatTime(b.LastModified)},
		{"sha-256", fmt.Sprintf("%x", b.SHA256)},
		{"cache control", b.CacheControl},
		{"content disposition", b.ContentDisposition},
		{"content language", b.ContentLanguage},
		{"lock", lockText(&b)},
	}
	if !b.Expires.IsZero() {
		facts = append(facts, [2]string{"expires", formatTime(b.Expires)})
	}
	for _, name := range slices.Sorted(maps.Keys(b.Metadata)) {
		facts = append(facts, [2]string{"meta " + name, cmp.Or(b.Metadata[name], `""`)})
	}
	return facts
}
