package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
)

// decodeString sets a string.
func decodeString(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := cli.PopText(ctx)
	if err == nil {
		target.SetString(text)
	}
	return err
}

// decodePath sets an absolute path. An empty one stays empty, where kong's own mapper would make it
// the working directory.
func decodePath(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := cli.PopText(ctx)
	if err == nil && text != "" {
		text = kong.ExpandPath(text)
	}
	if err == nil {
		target.SetString(text)
	}
	return err
}

// flagsFirst returns the arguments with a command's flags before its operands: kong ends a list of
// operands at the next flag. If something is wrong with the arguments it returns them as they are,
// so that kong reports it.
func flagsFirst(root *kong.Node, args []string) []string {
	node := root
	var words, flags, operands []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		child := childOf(node, arg)
		switch {
		case arg == "--":
			operands = append(operands, args[i+1:]...)
			i = len(args)
		case isFlag(arg):
			flags = append(flags, arg)
			if flagWithValue(leafOf(node), arg) != nil {
				i++
				if i == len(args) || isFlag(args[i]) {
					return args
				}
				flags = append(flags, args[i])
			}
		case child != nil && len(operands) == 0:
			node = child
			words = append(words, arg)
		default:
			operands = append(operands, arg)
		}
	}
	leaf := leafOf(node)
	passed := slices.ContainsFunc(leaf.Positional, func(p *kong.Positional) bool { return p.Passthrough })
	if len(leaf.Children) > 0 || len(operands) == 0 || passed {
		return args
	}
	return slices.Concat(words, flags, []string{"--"}, operands)
}

// withoutHuman returns the arguments of commands that print sizes without the -h of other programs,
// which stands for sizes in units: they are printed so in any case. Without operands it is help.
func withoutHuman(args []string) []string {
	if len(args) == 0 || !slices.Contains([]string{"ls", "list", "du", "find"}, args[0]) {
		return args
	}
	kept := args[:1:1]
	operands := slices.ContainsFunc(args[1:], func(arg string) bool { return !isFlag(arg) })
	for _, arg := range args[1:] {
		short := isFlag(arg) && arg[1] != '-'
		if short && (len(arg) > 2 || operands) {
			arg = strings.ReplaceAll(arg, "h", "")
		}
		if arg != "-" || !short {
			kept = append(kept, arg)
		}
	}
	return kept
}

// isFlag reports whether an argument is a flag, or "--".
func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// leafOf returns a node's default command, if it has one that takes arguments, or the node.
func leafOf(node *kong.Node) *kong.Node {
	if node.DefaultCmd != nil && node.DefaultCmd.Tag.Default == "withargs" {
		return node.DefaultCmd
	}
	return node
}

// childOf returns the command below node that has a name or alias, or nil.
func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name || slices.Contains(child.Aliases, name) {
			return child
		}
	}
	return nil
}

// flagWithValue returns an argument's flag, such as --expires, -e or -re, if the next argument is
// its value, or nil.
func flagWithValue(node *kong.Node, arg string) *kong.Flag {
	if name, long := strings.CutPrefix(arg, "--"); long {
		return settings.FindFlag(node, func(f *kong.Flag) bool { return (f.Name == name || slices.Contains(f.Aliases, name)) && takesValue(f) })
	}
	for i, short := range arg[1:] {
		flag := settings.FindFlag(node, func(f *kong.Flag) bool { return f.Short == short })
		if flag == nil || !takesValue(flag) {
			continue
		}
		if i+1+len(string(short)) < len(arg) { // the value is the rest
			return nil
		}
		return flag
	}
	return nil
}

func takesValue(f *kong.Flag) bool { return !f.IsBool() && !f.IsCounter() }
