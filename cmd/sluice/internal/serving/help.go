package serving

import (
	"sluice/cmd/sluice/internal/cli"
)

// Help has the commands' detailed helps by the commands' words.
var Help = map[string]string{
	"config check": cli.Examples("sluice config check --config sluice.yaml"),
	"config print": cli.Examples("sluice config print", "sluice config print --config sluice.yaml --json"),
	"serve":        cli.Examples("sluice serve", "sluice serve --ephemeral --seed ./fixtures", "sluice serve --addr localhost:0 --data ./data", "sluice serve --config sluice.yaml"),
}
