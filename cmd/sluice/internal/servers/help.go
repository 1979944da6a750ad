package servers

import (
	"sluice/cmd/sluice/internal/cli"
)

// Help has the commands' detailed helps by the commands' words.
var Help = map[string]string{
	"health": cli.Examples("sluice health", "sluice health --url https://blobs.example.org/sluice --timeout 2s"),
	"conformance": `Checks whether a server speaks the interface that docs/protocol.md describes: runs cases of one rule
each, and prints what became of each. Their blobs and uploads have random names and are removed,
also after Ctrl-C. Sessions and channels cannot be removed.

` + cli.Examples("sluice conformance", "sluice conformance https://blobs.example.org/sluice --key-file key",
		"sluice conformance --context prod --account 0xab --level extended",
		"sluice conformance --run ^range/ --json", "sluice conformance --junit report.xml", "sluice conformance --list"),
	"context add": cli.Examples("sluice context add prod https://blobs.example.org/sluice --key-file prod.key", "sluice context add local http://localhost:9090"),
	"context use": cli.Examples("sluice context use prod"),
	"context rm":  cli.Examples("sluice context rm prod"),
	"context ls":  cli.Examples("sluice context ls", "sluice context ls --json"),
	"bench": `Measures a server: sends operations over many connections, and prints how many there were a second,
and how long they took. It stores the blobs that it needs before, and removes them afterwards, also
after Ctrl-C. Sessions cannot be removed; they expire.

` + cli.Examples("sluice bench get", "sluice bench put team/tmp/ --size 4KiB=90,1MiB=10 -c 64 -d 30s", "sluice bench get --rate 5000 --blobs 100000 --json",
		"sluice bench mixed --mix get=90,put=10 --context prod"),
	"info": cli.Examples("sluice info", "sluice info --context prod --json"),
}
