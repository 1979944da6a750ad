package keys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"sluice/blob"
	"sluice/client"
	"sluice/cmd/sluice/internal/administration"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/wire"
)

// Bucket manages the aliases of S3's buckets, and which accounts keep versions, also while nodes
// run. Nodes apply a change within seconds.
type Bucket struct {
	Alias  bucketAlias  `cmd:"" help:"Make a bucket's name an alias for an account."`
	List   bucketList   `cmd:"" aliases:"ls" help:"List all aliases."`
	Remove bucketRemove `cmd:"" aliases:"rm" help:"Remove an alias. The account's blobs remain."`

	Versions bucketVersions `cmd:"" help:"Show or set which replaced and deleted blobs an account keeps, and their locks."`
	Rules    bucketRules    `cmd:"" help:"Show or set the rules by which blobs, versions and uploads are removed."`
}

type bucketAlias struct {
	administration.Flags

	Name    string `arg:"" placeholder:"NAME" help:"Name of the bucket."`
	Account string `arg:"" placeholder:"ACCOUNT" help:"Account with the blobs."`
}

// Validate reports all errors.
func (c *bucketAlias) Validate() error {
	_, err := blob.ParseAccount(c.Account)
	return errors.Join(blob.CheckBucket(c.Name), err)
}

// Run stores the alias. An instance refuses one for which an account has blobs: they would be
// hidden from S3's clients.
func (c *bucketAlias) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{Create: true}, func(ctx context.Context, on administration.Instance) error {
		alias, err := on.SetAlias(ctx, c.Name, c.Account)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return terminal.WriteJSON(console.Out, alias)
		}
		return c.Remark(console, fmt.Sprintf("The bucket %s has the blobs of the account %s.", alias.Bucket, terminal.Name(alias.Account)))
	})
}

type bucketList struct{ administration.Flags }

// Run prints all aliases, ordered by name.
func (c *bucketList) Run(ctx context.Context, console *cli.Console) error {
	return administration.PrintAll(ctx, console, &c.Flags, administration.Options{}, "BUCKET\tACCOUNT", administration.Instance.Aliases, func(a wire.Alias) []string {
		return []string{a.Bucket, terminal.Name(a.Account)}
	})
}

type bucketRemove struct {
	administration.Flags

	Name string `arg:"" placeholder:"NAME" help:"Name of the bucket."`
}

// Run removes an alias.
func (c *bucketRemove) Run(ctx context.Context, console *cli.Console) error {
	return c.With(ctx, console, administration.Options{}, func(ctx context.Context, on administration.Instance) error {
		if err := on.DeleteAlias(ctx, c.Name); err != nil {
			return administration.Explain(err, "there is no alias %s: sluice bucket list shows all", terminal.Name(c.Name))
		}
		return c.Remark(console, fmt.Sprintf("The bucket %s is no alias any more.", terminal.Name(c.Name)))
	})
}

type bucketVersions struct {
	administration.Flags

	Account string `arg:"" optional:"" placeholder:"ACCOUNT" help:"Account. Default: list all accounts that keep versions, or did."`
	Keep    string `arg:"" optional:"" placeholder:"on|off" help:"on: keep every blob that is replaced, deleted or expires. off: keep those alone that were stored before. Default: show the setting."`
	For     string `placeholder:"DURATION" help:"How long a version is kept after it was replaced or deleted, such as 30d, or unlimited. Default: unchanged, at first unlimited."`
	Most    string `placeholder:"NUMBER" help:"How many versions of one blob are kept besides the current one, at most, or unlimited. Default: unchanged, at first unlimited."`

	Locks    bool   `help:"Let versions be locked. This cannot be undone, and the account then keeps versions for ever."`
	LockFor  string `placeholder:"DURATION" help:"Lock each new version for that long, such as 30d, or none. Default: unchanged, at first none."`
	LockMode string `enum:",governance,compliance" default:"" placeholder:"MODE" help:"How: keys with the scope bypass end the lock early (governance), or nobody (compliance). Default: unchanged, at first governance."`
	LockMost string `placeholder:"DURATION" help:"Longest lock that a key can set, such as 365d. Default: unchanged, at first ten years."`
	Yes      bool   `short:"y" help:"Do not ask before a change that cannot be undone."`
}

// Validate reports all errors.
func (c *bucketVersions) Validate() (err error) {
	if c.Account != "" {
		_, err = blob.ParseAccount(c.Account)
	}
	if c.Keep != "" && c.Keep != wire.KeepOn && c.Keep != wire.KeepOff {
		err = errors.Join(err, fmt.Errorf("%s: want on or off", c.Keep))
	}
	if c.Keep == "" && (c.Locks || c.For+c.Most+c.LockFor+c.LockMode+c.LockMost != "") {
		err = errors.Join(err, errors.New("--for, --most and the flags of locks need on or off"))
	}
	if _, wrong := strconv.Atoi(c.Most); wrong != nil && c.Most != "" && c.Most != unlimited {
		err = errors.Join(err, fmt.Errorf("--most %s: want a number, or unlimited", c.Most))
	}
	return err
}

const unlimited = "unlimited"

// Run prints the settings, or changes one and prints it.
func (c *bucketVersions) Run(ctx context.Context, console *cli.Console) error {
	list := administration.Instance.Versions
	if c.Account != "" {
		list = func(on administration.Instance, ctx context.Context) iter.Seq2[wire.Keeping, error] {
			return func(yield func(wire.Keeping, error) bool) { yield(c.setting(ctx, console, on)) }
		}
	}
	o := administration.Options{Create: c.Keep != ""}
	return administration.PrintAll(ctx, console, &c.Flags, o, "ACCOUNT\tKEEP\tFOR\tMOST\tLOCKS\tOLDER VERSIONS", list, func(k wire.Keeping) []string {
		most, locks, older := unlimited, "none", "done"
		if l := k.Locks; l != nil {
			locks = cmp.Or(strings.TrimSpace(l.Mode+" "+l.For), "on")
		}
		if k.Most > 0 {
			most = fmt.Sprint(k.Most)
		}
		if k.Pending {
			older = fmt.Sprintf("%d done so far", k.Handled)
		}
		return []string{terminal.Name(k.Account), k.Keep, cmp.Or(k.For, unlimited), most, locks, older}
	})
}

// setting changes the account's setting, if it should, and returns it.
func (c *bucketVersions) setting(ctx context.Context, console *cli.Console, on administration.Instance) (wire.Keeping, error) {
	k, err := on.AccountVersions(ctx, c.Account)
	if err != nil || c.Keep == "" {
		return k, err
	}
	set := k.SetKeeping
	set.Keep = c.Keep
	if c.For != "" {
		set.For = strings.TrimPrefix(c.For, unlimited)
	}
	if c.Most != "" {
		set.Most, _ = strconv.Atoi(c.Most) // Validate has parsed it; 0: unlimited
	}
	if err := c.setLocks(&set); err != nil {
		return k, err
	}
	question := ""
	if l := set.Locks; l != nil && k.Locks == nil {
		question = "Locks cannot be turned off, and the account keeps versions for ever. "
	}
	if l := set.Locks; l != nil && l.Mode == client.LockCompliance && (k.Locks == nil || *l != *k.Locks) {
		question += "Nobody can delete a new version before its lock ends. "
	}
	if question != "" && !c.Yes {
		if err := cli.Confirm(ctx, console, question+"Go on?"); err != nil {
			return k, err
		}
	}
	return on.SetVersions(ctx, c.Account, set, client.UpdateOptions{IfMatch: k.ETag})
}

// setLocks changes the setting of locks.
func (c *bucketVersions) setLocks(set *wire.SetKeeping) error {
	if !c.Locks && c.LockFor+c.LockMode+c.LockMost == "" {
		return nil
	}
	var locks wire.LockSetting
	if set.Locks != nil {
		locks = *set.Locks
	} else if !c.Locks {
		return cli.Usagef("the account has no locks: --locks lets versions be locked, for ever")
	}
	if c.LockFor != "" || c.LockMode != "" {
		locks.For, locks.Mode = cmp.Or(c.LockFor, locks.For), cmp.Or(c.LockMode, locks.Mode, client.LockGovernance)
	}
	if c.LockFor == "none" {
		locks.For, locks.Mode = "", ""
	}
	if c.LockMost != "" {
		locks.Most = c.LockMost
	}
	set.Locks = &locks
	return nil
}
