package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/blobs"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/instances"
	"sluice/cmd/sluice/internal/keys"
	"sluice/cmd/sluice/internal/payments"
	"sluice/cmd/sluice/internal/servers"
	"sluice/cmd/sluice/internal/serving"
	"sluice/cmd/sluice/internal/settings"
)

// mainHelp has the detailed helps of this package's commands.
var mainHelp = map[string]string{
	"completion bash": cli.Examples("source <(sluice completion bash)", "sluice completion bash >/etc/bash_completion.d/sluice"),
	"completion zsh":  cli.Examples("source <(sluice completion zsh)", `sluice completion zsh >"${fpath[1]}/_sluice"`),
	"completion fish": cli.Examples("sluice completion fish | source", "sluice completion fish >~/.config/fish/completions/sluice.fish"),
	"version":         cli.Examples("sluice version", "sluice version --json"),
	"help":            cli.Examples("sluice help", "sluice help key create", "sluice help --flags"),
}

// helpWidth is the greatest width of help texts, in columns.
const helpWidth = 100

// describeFlag returns a flag's or argument's help text, with its default and its variable.
func describeFlag(value *kong.Value) string {
	text := value.Help
	if value.HasDefault && value.Default != "" && !value.IsBool() && !value.Tag.Has(settings.HasWords) {
		text = strings.TrimSpace(text + " Default: " + value.Default + ".")
	}
	if names := strings.Join(value.Tag.Envs, ", "); names != "" && names != "-" { // "-": none
		text = strings.TrimSuffix(text, ".") + " (" + names + ")."
	}
	return text
}

// setDetails sets the detailed helps of commands.
func setDetails(k *kong.Kong) error {
	nodes := []*kong.Node{k.Model.Node}
	for i := 0; i < len(nodes); i++ {
		nodes = append(nodes, nodes[i].Children...)
		for _, details := range []map[string]string{blobs.Help, servers.Help, payments.Help, serving.Help, keys.Help, instances.Help, mainHelp} {
			if text := details[pathOf(nodes[i])]; text != "" {
				nodes[i].Detail = text
			}
		}
	}
	return nil
}
