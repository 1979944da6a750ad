package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v4"

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
	files := append(testenv.Must(filepath.Glob("../../deploy/*.*"))(t), testenv.Must(filepath.Glob("../../deploy/*/*.*"))(t)...)
	if len(files) < 10 {
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

// TestComposeStarts checks that the nodes' configuration in compose.yaml is
// accepted.
func TestComposeStarts(t *testing.T) {
	text := testenv.Must(os.ReadFile("../../deploy/compose.yaml"))(t)
	var file struct {
		Services map[string]struct {
			Environment map[string]string
			Command     []string
			Ports       []string
		}
	}
	testenv.OK(t, yaml.Unmarshal(text, &file))
	expand := func(name string) string {
		// ${NAME:?text} and ${NAME:-default}, as in compose files.
		if m := regexp.MustCompile(`^\w+:-(.*)$`).FindStringSubmatch(name); m != nil {
			return m[1]
		}
		return "secret"
	}
	for _, node := range []string{"node1", "node2"} {
		t.Run(node, func(t *testing.T) {
			for name, value := range imageEnvironment(t) {
				t.Setenv(name, value)
			}
			for name, value := range file.Services[node].Environment {
				t.Setenv(name, os.Expand(value, expand))
			}
			if command := file.Services[node].Command; !slices.Equal(command, []string{"serve"}) {
				t.Errorf("the command is %q, want serve without the flags of a local instance", command)
			}
			c, err := parse(t)
			if err == nil && c.Addr != "0.0.0.0:9090" {
				t.Errorf("a node listens on %s, which is not the published port", c.Addr)
			}
			if err != nil || c.Profile != "hosted" || !c.Location.Shared() || !c.Location.Remote() {
				t.Errorf("%+v, %v", c, err)
			}
			for _, port := range file.Services[node].Ports {
				if !regexp.MustCompile(`^127\.0\.0\.1:`).MatchString(port) {
					t.Errorf("port %s is open to the network", port)
				}
			}
		})
	}
}

// imageEnvironment returns the variables that the container image sets.
func imageEnvironment(t *testing.T) map[string]string {
	t.Helper()
	text := testenv.Must(os.ReadFile("../../deploy/dist/image.go"))(t)
	variables := map[string]string{}
	for _, pair := range regexp.MustCompile(`"(SLUICE_\w+)=([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
		variables[pair[1]] = pair[2]
	}
	if len(variables) != 4 {
		t.Fatalf("the image sets the variables %v", variables)
	}
	return variables
}
