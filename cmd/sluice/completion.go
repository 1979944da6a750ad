package main

import (
	"context"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/cli"
)

// completionCommand prints scripts that complete commands, flags and names of blobs in a shell. The
// scripts ask completion words for candidates, so they are the same for all versions.
type completionCommand struct {
	Bash  completionBash  `cmd:"" help:"Print the script for bash."`
	Zsh   completionZsh   `cmd:"" help:"Print the script for zsh."`
	Fish  completionFish  `cmd:"" help:"Print the script for fish."`
	Words completionWords `cmd:"" hidden:"" help:"Print the candidates for the last of the words."`
}

type (
	completionBash struct{}
	completionZsh  struct{}
	completionFish struct{}
)

// Run prints the script.
func (completionBash) Run(console *cli.Console) error { return cli.PrintLine(console.Out, bashScript) }

// Run prints the script.
func (completionZsh) Run(console *cli.Console) error { return cli.PrintLine(console.Out, zshScript) }

// Run prints the script.
func (completionFish) Run(console *cli.Console) error { return cli.PrintLine(console.Out, fishScript) }

// In the scripts the shell completes file names when there are no candidates. A candidate may be a
// name that somebody else has chosen, so none is ever evaluated, as compgen -W would do.
const (
	bashScript = `# bash completion for sluice
_sluice() {
  local IFS=$' \t\n' line="${COMP_LINE:0:COMP_POINT}" head='' word candidate
  local -a words
  read -a words <<<"$line"
  [[ $line == *' ' && $line != *'\ ' ]] && words+=('')
  word="${words[${#words[@]}-1]}"
  [[ $COMP_WORDBREAKS == *:* ]] && head="${word%"${word##*[:=]}"}"
  COMPREPLY=()
  while IFS= read -r candidate; do
    COMPREPLY+=("$(printf %q "${candidate#"$head"}")")
  done < <("${words[0]}" completion words -- "${words[@]:1}" 2>/dev/null)
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -o default -F _sluice sluice`

	zshScript = `#compdef sluice
_sluice() {
  local -a candidates
  candidates=("${(@f)$("${words[1]}" completion words -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${candidates[1]}" ]]; then
    compadd -S '' -- "${(@M)candidates:#*/}"
    compadd -- "${(@)candidates:#*/}"
  else
    _files
  fi
}
if [[ "${funcstack[1]}" = _sluice ]]; then
  _sluice "$@"
else
  compdef _sluice sluice
fi`

	fishScript = `# fish completion for sluice
function __sluice_complete
    set -l words (commandline -opc)
    $words[1] completion words -- $words[2..-1] (string unescape -- (commandline -ct)) 2>/dev/null
end
complete -c sluice -a '(__sluice_complete)'`
)

type completionWords struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints the candidates, one a line.
func (c *completionWords) Run(ctx context.Context, console *cli.Console, parser *parser) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range candidates(ctx, parser.kong.Model.Node, words) {
		if err := cli.PrintLine(console.Out, candidate); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the possible last words: a command, a flag, its value or a name on a server.
// It returns none if it may be anything, such as a file's name.
func candidates(ctx context.Context, node *kong.Node, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var valueOf *kong.Flag // the flag that the next word is the value for
	flags := map[string]string{}
	operands := 0
	for _, word := range words[:len(words)-1] {
		switch {
		case valueOf != nil:
			flags[valueOf.Name] = word
			valueOf = nil
		case strings.HasPrefix(word, "-"):
			if name, value, found := strings.Cut(word, "="); found {
				flags[strings.TrimLeft(name, "-")] = value
			} else {
				valueOf = flagWithValue(leafOf(node), word)
			}
		default:
			if child := childOf(node, word); child != nil && operands == 0 {
				node = child
			} else {
				operands++
			}
		}
	}
	if valueOf != nil {
		return matching(valuesOf(valueOf), last)
	}
	if strings.HasPrefix(last, "-") {
		return matching(flagNames(node), last)
	}
	if names := matching(commandNames(node), last); len(names) > 0 && operands == 0 {
		return names
	}
	return remoteNames(ctx, leafOf(node), flags, operands, last)
}

func matching(candidates []string, prefix string) []string {
	return slices.DeleteFunc(candidates, func(c string) bool { return !strings.HasPrefix(c, prefix) })
}

// valuesOf returns the values that a flag may have, or none if it may have any.
func valuesOf(flag *kong.Flag) []string {
	if flag.Name == "context" {
		if list, err := cli.LoadContexts(); err == nil {
			return list.Names()
		}
	}
	if flag.Enum != "" {
		return flag.EnumSlice()
	}
	return nil
}

func flagNames(node *kong.Node) (names []string) {
	for _, flags := range node.AllFlags(true) {
		for _, flag := range flags {
			names = append(names, "--"+flag.Name)
		}
	}
	return names
}
