package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"sluice/client"
	"sluice/cmd/sluice/internal/operand"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
)

// statCommand prints the properties of blobs.
type statCommand struct {
	Blobs []remoteOperand `arg:"" name:"blob" help:"ACCOUNT/NAME. Several are possible."`

	serverFlags
	outputFlags
}

// Help returns examples.
func (statCommand) Help() string {
	return examples("sluice stat team/photos/photo.jpg", "sluice stat --json team/a team/b")
}

// Run prints the properties.
func (c *statCommand) Run(ctx context.Context, console *console) error {
	from, err := c.client(console, "")
	if err != nil {
		return err
	}
	if err := allBlobs(c.Blobs); err != nil {
		return err
	}
	return eachOf(c.Blobs, func(of remoteOperand) error {
		b, err := describe(ctx, from, of.Remote)
		switch {
		case err != nil:
			return blobError(of.Remote, err)
		case c.JSON:
			return terminal.WriteJSON(console.out, newPrintedBlob(of.Account, b))
		default:
			return writeBlob(console.out, of.Remote, b)
		}
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

func writeBlob(out io.Writer, of operand.Remote, b client.Blob) error {
	lines := [][2]string{
		{"blob", terminal.Name(of.String())},
		{"size", fmt.Sprintf("%s (%s)", units.Count(b.Size, "byte"), units.Bytes(b.Size))},
	}
	for _, optional := range [][2]string{{"etag", b.ETag}, {"content type", b.ContentType}, {"modified", formatTime(b.LastModified)}, {"sha-256", fmt.Sprintf("%x", b.SHA256)}, {"cache control", b.CacheControl}, {"content disposition", b.ContentDisposition}, {"content language", b.ContentLanguage}} {
		if optional[1] != "" {
			lines = append(lines, optional)
		}
	}
	if !b.Expires.IsZero() {
		lines = append(lines, [2]string{"expires", formatTime(b.Expires)})
	}
	for _, name := range slices.Sorted(maps.Keys(b.Metadata)) {
		lines = append(lines, [2]string{"meta " + name, b.Metadata[name]})
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var errs []error
	for _, line := range lines {
		_, err := fmt.Fprintf(table, "%s\t%s\n", terminal.Text(line[0]), terminal.Text(line[1]))
		errs = append(errs, err)
	}
	return errors.Join(append(errs, table.Flush())...)
}
