package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
)

// TestDeployNamesWhatExists checks that the flags and variables in the files of deploy
// exist.
func TestDeployNamesWhatExists(t *testing.T) {
	parser := testenv.Must(newParser(newCommands()))(t)
	flags, variables := []string{}, slices.Clone(cli.ClientVariables)
	for _, command := range parser.kong.Model.Leaves(false) {
		for _, flag := range command.Flags {
			flags = append(flags, "--"+flag.Name)
			variables = append(variables, flag.Envs...)
		}
	}
	var files []string
	for _, depth := range []string{"*.*", "*/*.*", "*/*/*.*"} {
		files = append(files, testenv.Must(filepath.Glob("../../deploy/"+depth))(t)...)
	}
	if len(files) < 20 {
		t.Fatal(files)
	}
	variable := regexp.MustCompile(`\bSLUICE_[A-Z0-9_]+`)
	sluiceLine := regexp.MustCompile(`(?m)^.*(?:sluice serve|sluice backup|"serve"|node1 key|node1 serve).*$`)
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	for _, name := range files {
		text := testenv.Must(os.ReadFile(name))(t)
		for _, v := range variable.FindAllString(string(text), -1) {
			if !slices.Contains(variables, v) {
				t.Errorf("%s has the unknown variable %s", name, v)
			}
		}
		for _, line := range sluiceLine.FindAllString(string(text), -1) {
			for _, f := range flag.FindAllString(line, -1) {
				if !slices.Contains(flags, f) && f != "--rm" {
					t.Errorf("%s has the unknown flag %s", name, f)
				}
			}
		}
	}
}
