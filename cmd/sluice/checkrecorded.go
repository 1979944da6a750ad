package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/metastore"
)

// printedDamage is one damaged extent, in JSON.
type printedDamage struct {
	Content string         `json:"content"`
	Part    int            `json:"part"`
	Offset  int64          `json:"offset"`           // within the part
	Size    int64          `json:"size"`             // the extent's bytes
	Object  string         `json:"object,omitempty"` // absent: the database keeps the extent
	Bytes   int64          `json:"damagedBytes"`
	Since   time.Time      `json:"since"`
	Reason  string         `json:"reason"`
	Blobs   []printedOwner `json:"blobs"` // none: an upload's part
}

// printedOwner is a blob with damaged bytes, in JSON.
type printedOwner struct {
	Account string `json:"account"`
	Name    string `json:"name"`
}

// checkRecorded prints the damage that reads and the scrub have recorded: a line for each blob and
// extent, or with --json an object for each extent. It returns an error if there is any.
func (c *checkCommand) checkRecorded(ctx context.Context, console *console) error {
	stores, err := c.openMeta(ctx, false)
	if err != nil {
		return err
	}
	extents, err := c.printRecorded(ctx, console.out, stores.Meta)
	if err := errors.Join(err, stores.Close()); err != nil {
		return err
	}
	if extents > 0 {
		return exitWith(exitDamaged, fmt.Errorf("damaged extents: %d", extents))
	}
	if c.JSON {
		return nil
	}
	return printLine(console.out, "No damage is recorded.")
}

// printRecorded prints all damage, and returns how many extents have some.
func (c *checkCommand) printRecorded(ctx context.Context, out io.Writer, meta metastore.Store) (extents int, err error) {
	for after := (metastore.ExtentID{}); ; {
		page, err := meta.Damages(ctx, after, metastore.MaxContents)
		if err != nil || len(page) == 0 {
			return extents, err
		}
		var contents []metastore.ContentID
		for i := range page {
			contents = append(contents, page[i].Content)
		}
		blobs, err := meta.BlobsWith(ctx, contents)
		if err != nil {
			return extents, err
		}
		owners := map[metastore.ContentID][]printedOwner{}
		for _, b := range blobs {
			owners[b.Content] = append(owners[b.Content], printedOwner{b.Account, b.Name})
		}
		for i := range page {
			if err := c.printOne(out, &page[i], owners[page[i].Content]); err != nil {
				return extents, err
			}
		}
		extents += len(page)
		after = page[len(page)-1].ExtentID
	}
}

func (c *checkCommand) printOne(out io.Writer, d *metastore.Damage, owners []printedOwner) error {
	if c.JSON {
		return terminal.WriteJSON(out, printedDamage{
			Content: d.Content.String(), Part: d.Part, Offset: d.Offset, Size: d.Size, Object: d.Object,
			Bytes: d.Bytes, Since: d.Since, Reason: d.Reason, Blobs: append([]printedOwner{}, owners...),
		})
	}
	where := "in object " + d.Object
	if d.Object == "" {
		where = "in the database"
	}
	what := fmt.Sprintf("%s damaged %s, part %d, offset %d, since %s: %s", units.Bytes(d.Bytes), where, d.Part, d.Offset, d.Since.UTC().Format(time.RFC3339), terminal.Text(d.Reason))
	if len(owners) == 0 {
		return printLine(out, "a part of an upload: "+what)
	}
	for _, o := range owners {
		if err := printLine(out, terminal.Name(o.Account+"/"+o.Name)+": "+what); err != nil {
			return err
		}
	}
	return nil
}
