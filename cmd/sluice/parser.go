package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/settings"
	"sluice/internal/units"
)

// parser parses the command line, the environment and the configuration file.
type parser struct {
	kong *kong.Kong
	read settings.File
}

// newParser returns a parser of commands, which is a struct of them.
func newParser(commands any, options ...kong.Option) (*parser, error) {
	p := &parser{}
	k, err := kong.New(commands, append(parserOptions(), append(options, kong.Bind(&p.read))...)...)
	if err != nil {
		return nil, err
	}
	p.kong = k
	return p, nil
}

// parse parses a command line. Its errors state the mistake, its place and the remedy; with an
// error the result is the parsed part, or nil.
func (p *parser) parse(args []string) (*kong.Context, error) {
	if len(args) > 0 && (args[0] == "--version" || args[0] == "-v") { // behind a command it names a blob's version
		args = append([]string{"version"}, args[1:]...)
	}
	command, err := p.kong.Parse(flagsFirst(p.kong.Model.Node, withoutHuman(args)))
	if err == nil {
		return command, emptyFlags(command)
	}
	if wrong := (*kong.ParseError)(nil); errors.As(err, &wrong) {
		command = wrong.Context
	}
	return command, usageError(err, &p.read)
}

// emptyFlags returns an error for each text flag that is empty on the command line, as an unset
// variable of a shell leaves it: --url "$PROD" must not mean the default server. The settings of
// serve have rules of their own, and a flag that can be set back to nothing is a *string.
func emptyFlags(command *kong.Context) error {
	if selected := command.Selected(); selected == nil || selected.Name == "serve" || selected.Parent.Name == "config" {
		return nil
	}
	var errs []error
	for _, element := range command.Path {
		if flag := element.Flag; flag != nil && !element.Resolved && isEmptyText(flag.Target) {
			errs = append(errs, fmt.Errorf("--%s is empty: want --%s %s, or omit the flag", flag.Name, flag.Name, flag.FormatPlaceHolder()))
		}
	}
	return errors.Join(errs...)
}

func isEmptyText(flag reflect.Value) bool {
	if texts, isList := flag.Interface().([]string); isList {
		return len(texts) == 0 || slices.Contains(texts, "")
	}
	return flag.Kind() == reflect.String && flag.String() == ""
}

// parserOptions configures how the command line and the environment are read.
func parserOptions() []kong.Option {
	return []kong.Option{
		kong.Name("sluice"),
		kong.Description("Sluice stores blobs, serves any byte range of them, and meters the reads."),
		kong.PostBuild(nameVariables),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeDuration)),
		kong.KindMapper(reflect.String, kong.MapperFunc(decodeString)),
		kong.NamedMapper("path", kong.MapperFunc(decodePath)),
		kong.PostBuild(setTexts),
		kong.PostBuild(setDetails),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: helpWidth}),
		kong.ValueFormatter(describeFlag),
	}
}

// nameVariables gives each setting an environment variable: --s3-addr is SLUICE_S3_ADDR. The
// settings are the flags of serve, and other commands' flags with the same names if they read its
// configuration file. A key's permissions, for example, are set by the command line only.
func nameVariables(k *kong.Kong) error {
	settings := settings.Of(k.Model)
	for _, command := range k.Model.Leaves(false) {
		reads := slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == "config" })
		for _, flag := range command.Flags {
			if reads && settings[flag.Name] != nil {
				name := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
				flag.Envs, flag.Tag.Envs = []string{name}, []string{name}
			}
		}
	}
	return nil
}

// decodeDuration parses a flag's duration.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := units.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("want a duration, such as 30s, 10m, 12h or 30d, not %q", text)
	}
	target.SetInt(int64(d))
	return nil
}

// setTexts sets the defaults and helps of flags that are defined elsewhere. Kong's variables would
// do the same, but kong expands every variable again for every flag.
func setTexts(k *kong.Kong) error {
	texts := []string{
		"${data}", settings.DefaultData, "${default_url}", contexts.DefaultURL,
	}
	for _, s := range settings.Table(&settings.Configuration{}) {
		texts = append(texts, "${"+s.Name+"_help}", s.FlagHelp())
	}
	names := strings.NewReplacer(texts...)
	for _, command := range k.Model.Leaves(false) {
		for _, flag := range command.Flags {
			flag.Default, flag.Help = names.Replace(flag.Default), names.Replace(flag.Help)
		}
	}
	return nil
}
