package keys

import (
	"sluice/cmd/sluice/internal/cli"
)

// Help has the commands' detailed helps by the commands' words.
var Help = map[string]string{
	"bucket alias": cli.Examples("sluice bucket alias photos 0x1"),
	"bucket list":  cli.Examples("sluice bucket list --json"),
	"bucket versions": "The setting holds for older versions, too, which follow it in the background. A limit that is set drops what is beyond it, for good.\n\n" +
		cli.Examples("sluice bucket versions", "sluice bucket versions team on --for 30d --context prod", "sluice bucket versions team off", "sluice bucket versions team on --locks --lock-for 30d"),
	"bucket rules": "Without a file it shows the rules, and what their last run removed. The rules in a file replace all that the account has. Before they are set, the command shows what each would remove now, and asks. Rules are applied soon after a change and every day after midnight in UTC. Locked versions stay.\n\n" +
		cli.Examples("sluice bucket rules", "sluice bucket rules team --json >rules.json", "sluice bucket rules team rules.json --preview", "sluice bucket rules team rules.json", `echo '[{"id":"logs","expireDays":30}]' | sluice bucket rules team - --yes`),
	"bucket remove": cli.Examples("sluice bucket remove photos"),
	"place list":    cli.Examples("sluice place list", "sluice place list team --json"),
	"place show":    cli.Examples("sluice place show team/photos/ --context prod"),
	"place set":     cli.Examples("sluice place set team --may-open --context prod", "sluice place set team/photos/ public --lists key --context prod"),
	"place block":   cli.Examples("sluice place block team/photos/cat.jpg 'a court order'"),
	"place unblock": cli.Examples("sluice place unblock team/photos/cat.jpg"),
	"key create":    cli.Examples("sluice key create --scopes read,write --accounts team-a --expires 30d", "sluice key create --scopes write --accounts team-a --s3 --config my.yaml", "sluice key create --scopes admin --all-accounts --label operator"),
	"key list":      cli.Examples("sluice key list", "sluice key list --context prod", "sluice key list --url https://HOST/sluice --key-file admin.key"),
	"key show":      cli.Examples("sluice key show ID"),
	"key revoke":    cli.Examples("sluice key revoke ID", "sluice key revoke --context prod ID"),
	"key reseal":    cli.Examples("sluice key reseal --s3-secret-key-file ./s3.key"),
	"group list":    cli.Examples("sluice group list", "sluice group list --json"),
	"group show":    cli.Examples("sluice group show team-a", "sluice group show team-a --json"),
	"group set":     cli.Examples("sluice group set team-a --stored-bytes 10G --requests-per-second 50", "sluice group set team-a --open-uploads unlimited --default channels"),
	"key update":    cli.Examples("sluice key update ID --expires 30d", "sluice key update ID --scopes read,write --accounts team-a,team-b", "sluice key update ID --all-accounts --label CI --expires never", "sluice key update ID --new-secret"),
}
