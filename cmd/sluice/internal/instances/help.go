package instances

import (
	"sluice/cmd/sluice/internal/cli"
)

// Help has the commands' detailed helps by the commands' words.
var Help = map[string]string{
	"backup create": `Copies the metadata as they are at one moment, and all objects that they need and the place
does not have yet. The instance may be served meanwhile: what is deleted is not freed before the
backup ends, except on a full disk. If the command is interrupted, the next one continues.
With a flag --keep-..., backups that none of them keeps are removed afterwards.

` + cli.Examples("sluice backup ./backups", "sluice backup --keep-daily 7 --keep-weekly 5 s3://BACKUPS/sluice"),
	"backup ls": cli.Examples("sluice backup ls ./backups", "sluice backup ls --json s3://BACKUPS/sluice"),
	"backup verify": `Reads all metadata of a backup and compares them with their checksums, and looks whether each
object exists with its size. The exit code is 6 if something is damaged or missing.

` + cli.Examples("sluice backup verify ./backups", "sluice backup verify --read-bytes --max-rate 50MiB s3://BACKUPS/sluice"),
	"backup prune": `Removes the backups that no flag keeps, what interrupted ones have left, and the objects that no
backup needs any more. No backup can be made meanwhile.

` + cli.Examples("sluice backup prune --keep-last 10 ./backups", "sluice backup prune --keep-daily 7 --keep-monthly 12 s3://BACKUPS/sluice"),
	"task list":   cli.Examples("sluice task list --context prod"),
	"task start":  cli.Examples("sluice task start scrub"),
	"task pause":  cli.Examples("sluice task pause sweep"),
	"task resume": cli.Examples("sluice task resume sweep"),
	"webhook create": `The server delivers the changes that follow, in order, to the URL: CloudEvents with the headers of
Standard Webhooks, signed by the secret that is printed. The webhook has the rights of the key that
creates it, or changes it last, and is off when that ends.

` + cli.Examples("sluice webhook create https://example.org/hook 0x1/photos/", "sluice webhook create https://example.org/purge --kinds deleted"),
	"webhook list":   cli.Examples("sluice webhook list", "sluice webhook ls --json --context prod"),
	"webhook show":   cli.Examples("sluice webhook show ID"),
	"webhook update": cli.Examples("sluice webhook update ID --new-url https://example.org/2", "sluice webhook update ID --changes 0x1/photos/"),
	"webhook rotate": cli.Examples("sluice webhook rotate ID"),
	"webhook test":   cli.Examples("sluice webhook test ID"),
	"webhook on":     cli.Examples("sluice webhook on ID"),
	"webhook off":    cli.Examples("sluice webhook off ID"),
	"webhook remove": cli.Examples("sluice webhook remove ID"),
	"node list": "A database has the nodes that share it, in PostgreSQL; the server of a data folder lists itself only.\n\n" +
		cli.Examples("sluice node list --context prod"),
	"action list": cli.Examples("sluice action list -n 20", "sluice action list --json --context prod"),
	"recover": `Prints what is known about an instance that was set back, asks, and begins its next
generation, in which it accepts changes again. Nothing that was lost comes back. Objects that
nothing refers to are kept for 30 days. A server must not run on the data folder; nodes that have
everything in PostgreSQL and an object store may run.

` + cli.Examples("sluice recover --data ./sluice-data", "sluice recover --meta postgres://HOST/DB --bytes s3://BUCKET --report FILE"),
	"restore": `Makes an instance of a backup in an empty place, of either kind, and checks it. The instance has
the id that was backed up, and begins its next generation: do not serve both. If the
command is interrupted, the same one continues.

` + cli.Examples("sluice restore ./backups --to ./restored", "sluice restore s3://BACKUPS --to-meta postgres://HOST/DB --to-bytes s3://NEW",
		"sluice restore ./backups --to ./photos --account 0x1 --prefix photos/"),
	"resume settling": `Prints why settling has halted, asks, and resumes it. Servers that run continue by themselves.

` + cli.Examples("sluice resume settling --data ./sluice-data", "sluice resume settling --meta postgres://HOST/DB"),
	"resume sweep": `Permits the next sweep within a day to delete more orphans than its safety limit, once. The log of
the sweep that was refused has their number. First make sure that the metadata is not older than
the objects, as an old database that was put back is: then the orphans are its lost blobs.

` + cli.Examples("sluice resume sweep --data ./sluice-data", "sluice resume sweep --meta postgres://HOST/DB --yes"),
	"check": `Compares everything that an instance stores with everything else that it stores, and
changes nothing. It may run beside a server. It prints a line for each damage, and what was not
checked. The exit code is 0 if all is well, 6 if there is damage, and 5 if there is none in what
could be checked, but not all could be.

With --repair it first makes the repairs that lose nothing: it corrects counts that follow from
stored rows (the references of contents, the sums of accounts, the usage of owners and of open
uploads), and deletes objects to which nothing refers, once they are as old as a server's
sweep requires. It prints what it has repaired, then what is damaged and stays as it is, and what it
did not repair. Then the exit code is 0 if nothing is damaged any more. A server must not run on the
data folder; nodes that have everything in PostgreSQL and an object store may run.

` + cli.Examples("sluice check --data ./sluice-data", "sluice check --data ./sluice-data --read-bytes", "sluice check --data ./sluice-data --repair", "sluice check --data ./sluice-data --books", "sluice check --data ./sluice-data --recorded --json", "sluice check --meta postgres://HOST/DB --bytes s3://BUCKET"),
}
