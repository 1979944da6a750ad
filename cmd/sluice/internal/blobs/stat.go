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

	cli.ServerFlags
	cli.OutputFlags
}

// Run prints the properties.
func (c *Stat) Run(ctx context.Context, console *cli.Console) error {
	from, err := c.ClientOf(console, c.Blobs...)
	if err != nil {
		return err
	}
	if err := allBlobs(c.Blobs); err != nil {
		return err
	}
	return eachOf(c.Blobs, func(of cli.RemoteOperand) error {
		b, err := describe(ctx, from, of.Remote)
		if err != nil {
			return blobError(of.Remote, err)
		}
		return c.Facts(console, newPrintedBlob(of.Account, b), blobFacts(of.Remote, b))
	})
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
	}
	if !b.Expires.IsZero() {
		facts = append(facts, [2]string{"expires", formatTime(b.Expires)})
	}
	for _, name := range slices.Sorted(maps.Keys(b.Metadata)) {
		facts = append(facts, [2]string{"meta " + name, cmp.Or(b.Metadata[name], `""`)})
	}
	return facts
}
