package blobs

import (
	"sluice/cmd/sluice/internal/cli"
)

// Help has the commands' detailed helps by the commands' words.
var Help = map[string]string{
	"get": "A file appears when all its bytes were verified. A large one that was interrupted is resumed if the same command is run again. " +
		"With -r, files that are there already are not read again, and names that cannot be files of the folder are listed and skipped.\n\n" +
		cli.Examples("sluice get team/photos/photo.jpg", "sluice get team/a team/b ./folder/", "sluice get -r team/photos/ ./photos", "sluice get team/backup.tar - | tar x"),
	"cp": "Copies of blobs keep their properties, except those that flags set. A server copies its own blobs by itself, if the key may read without payment.\n\n" +
		cli.Examples("sluice cp photo.jpg team/photos/", "sluice cp *.jpg prod:team/photos/", "sluice cp -r prod:team/photos/ ./photos", "sluice cp team/a.txt team/b.txt", "sluice cp -r prod:team/photos/ test:team/photos/"),
	"stat": cli.Examples("sluice stat team/photos/photo.jpg", "sluice stat --json team/a team/b"),
	"root": "A root is the hash to which the network's own client commits a blob. It does not bind the size: zeros at a file's end, in its last chunkset of 10 MiB, do not change it.\n\n" +
		cli.Examples("sluice root photo.jpg", "sluice root --json *.jpg", "sluice cat team/photos/photo.jpg | sluice root -"),
	"upload ls": "By a database, with --data or --meta, it lists all uploads and needs no key. Without a flag it asks the current server.\n\n" +
		cli.Examples("sluice upload ls team", "sluice upload ls --context prod"),
	"upload abort": "Only a server aborts uploads: a database cannot free what they have stored.\n\n" +
		cli.Examples("sluice upload abort ID"),
	"mv": "The server moves a blob whatever its size, and replaces one that has the name. After an interruption the same command moves the rest.\n\n" +
		cli.Examples("sluice mv team/draft.txt team/final.txt", "sluice mv team/photo.jpg archive/", "sluice mv -r team/2025/ archive/2025/"),
	"find": "A blob is printed if it meets all conditions, as an operand of other commands.\n\n" +
		cli.Examples("sluice find team/photos/ --name '*.jpg' --larger 10MiB", "sluice find --json team --newer-than 1h", "sluice find team/tmp/ --older-than 30d -0 | xargs -0 sluice rm"),
	"share": "Prints a URL with which others use a hosted network without a key, until it expires or the key that signs it is revoked. The key needs an S3 secret. On a local instance, which needs no link, the plain URL is printed.\n\n" +
		cli.Examples("sluice share team/photo.jpg --for 1d", "sluice share team/photos/", "sluice share --write team/inbox/report.pdf --secret-file team.s3"),
	"put": "A large file that was interrupted is resumed if the same command is run again. With -r, files that are stored already are not sent again.\n\n" +
		cli.Examples("sluice put photo.jpg team/photos/", "sluice put *.jpg team/photos/", "sluice put -r ./photos team/photos/ --expires 30d", "sluice put backup.tar team/backups/ --until 90d", "tar c . | sluice put - team/backup.tar"),
	"upload put": "A large file that was interrupted is resumed if the same command is run again. With -r, files that are stored already are not sent again.\n\n" +
		cli.Examples("sluice put photo.jpg team/photos/", "sluice put *.jpg team/photos/", "sluice put -r ./photos team/photos/ --expires 30d", "sluice put backup.tar team/backups/ --until 90d", "tar c . | sluice put - team/backup.tar"),
	"ls": cli.Examples("sluice ls", "sluice ls team", "sluice ls -l team/photos/", "sluice ls -r --json team", "sluice ls -l --versions team/photos/photo.jpg"),
	"undelete": "An account that keeps versions has a deleted blob until its version is dropped. A version becomes current again, and no bytes are transferred. Nothing is deleted, and a blob that changes meanwhile is left alone. Content that is replaced is kept as any replaced content.\n\n" +
		cli.Examples("sluice undelete team/photos/photo.jpg", "sluice undelete team/photos/ --dry-run", "sluice undelete team/photos/ --at 12:00"),
	"lock": "A locked version is deleted by nobody, whatever is written under its name: not by rm --version, rules, limits of versions or expiry. The account needs locks (bucket versions --locks), and the key the scope retain.\n\n" +
		cli.Examples("sluice lock -r team/backups/ --until 30d", "sluice lock team/books.pdf --until 2040-01-01 --mode compliance", "sluice lock team/books.pdf --hold --version ID", "sluice lock team/books.pdf --end --bypass"),
	"sync": "Files and blobs are the same if their sizes and ETags are. Without --delete nothing is removed. With --track-renames a renamed file is not sent again: with --delete the server moves the blob, otherwise it copies it.\n\n" +
		cli.Examples("sluice sync ./site team/site/", "sluice sync --delete --track-renames ./photos team/photos/", "sluice sync --delete --dry-run ./site prod:team/site/", "sluice sync prod:team/ test:team/"),
	"rm": "If the account keeps versions, sluice undelete restores a deleted blob. With --version a version is deleted for good, which needs a key with admin; if that is a deletion's mark, the blob is current again.\n\n" +
		cli.Examples("sluice rm team/photos/photo.jpg", "sluice rm -r team/photos/", "sluice rm -r --yes team/tmp/", "sluice rm team/photos/photo.jpg --version ID"),
	"watch": "Prints each change once, in the order of commits, until it is interrupted. After an interruption it continues where it was, and with --after a later command does. Names have no line breaks, so each change is one line.\n\n" +
		cli.Examples("sluice watch team", "sluice watch team/photos/ --kinds stored,replaced", "sluice watch --json team | while read -r change; do echo \"$change\"; done"),
	"mirror": "FROM and TO are ACCOUNT, ACCOUNT/PREFIX/ or, for all accounts, a colon, each after CONTEXT:. TO becomes equal: what FROM does not have is deleted there, and what others change there is changed back at the next comparison. " +
		"Mirrored are contents, content types, headers, custom headers and expiries. Not mirrored are versions that are not current, locks, tags of S3, keys, settings, sessions, channels and payments. " +
		"After any interruption the same command continues.\n\n" +
		cli.Examples("sluice mirror prod:team/ backup:team/", "sluice mirror prod: backup: --metrics localhost:9095", "sluice mirror prod:team backup:team --once --max-deletions 100"),
	"du": cli.Examples("sluice du", "sluice du team", "sluice du team/photos/ team/logs/"),
	"cat": "A blob is written while it is read: its checksum is verified at the end, and if it differs, the exit code is 1. After any other error it is 5 if something was written.\n\n" +
		cli.Examples("sluice cat team/notes.txt", "sluice cat team/log.1 team/log.2 | grep error"),
}
