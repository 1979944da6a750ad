package nodes

import (
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"sluice/e2e"
	"sluice/test/testenv"
)

// composed is a service in deploy/compose.yaml.
type composed struct {
	Command     []string
	Environment map[string]string
	Ports       []string
}

// line returns the command line that runs a program with the service's arguments and environment,
// in which names of hosts, addresses and folders are replaced.
func (c composed) line(replaced *strings.Replacer, program string, more ...string) []string {
	line := []string{"env"}
	for name, value := range c.Environment {
		value = os.Expand(value, func(name string) string {
			_, fallback, _ := strings.Cut(name, ":-") // ${NAME:-default}, ${NAME:?text}
			return fallback
		})
		line = append(line, name+"="+replaced.Replace(value))
	}
	line = append(append(line, more...), program)
	for _, word := range c.Command {
		line = append(line, replaced.Replace(word))
	}
	return line
}

// TestComposeRuns runs the command lines of deploy/compose.yaml, in the environment that the file
// and the image set, as processes with other addresses and folders. The published ports are this
// machine's, nobody reads or writes without a key, and each node returns the other's blob.
func TestComposeRuns(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.VersityGW)
	deploy := filepath.Join(testenv.Must(testenv.Root())(t), "deploy")
	text := string(testenv.Must(os.ReadFile(filepath.Join(deploy, "compose.yaml")))(t))
	var file struct{ Services map[string]composed }
	testenv.OK(t, yaml.Unmarshal([]byte(text), &file))

	address, objects := testenv.ReserveAddress(t), testenv.MemoryDir(t)
	stores := []string{"postgres://sluice:@postgres/sluice", testenv.StartPostgres(t).DSN(), "http://s3:7070", "http://" + address, ":7070", address, "/data", objects}
	place := strings.NewReplacer(stores...)
	bucket := file.Services["bucket"].line(place, "env")
	testenv.OK(t, exec.Command(bucket[0], bucket[1:]...).Run())
	gateway := file.Services["s3"].line(place, testenv.Must(testenv.VersityGWPath())(t), "ROOT_SECRET_KEY=secret")
	store := exec.Command(gateway[0], gateway[1:]...)
	testenv.OK(t, store.Start())
	t.Cleanup(func() { _, _ = store.Process.Kill(), store.Wait() })
	e2e.Await(t, "the gateway does not listen", func() bool {
		c, err := net.Dial("tcp", address)
		return err == nil && c.Close() == nil
	})

	var key string
	var nodes []*e2e.Server
	for _, name := range []string{"node1", "node2"} {
		service := file.Services[name]
		image := imageEnvironment(t, deploy)
		published := "127.0.0.1:" + testenv.Must(url.Parse(service.Environment["SLUICE_EXTERNAL_URL"]))(t).Port() + ":9090"
		if !slices.Contains(service.Ports, published) || slices.ContainsFunc(service.Ports, func(p string) bool { return !strings.HasPrefix(p, "127.0.0.1:") }) {
			t.Errorf("%s publishes %q, want %s and no address of the network", name, service.Ports, published)
		}
		data, listens := filepath.Join(testenv.MemoryDir(t), "data"), testenv.ReserveAddress(t)
		replaced := strings.NewReplacer(append(slices.Clone(stores[:6]), "/data", data, "0.0.0.0:9090", listens, "127.0.0.1:9090", listens)...)
		maps.Copy(image, service.Environment)
		service.Environment = image
		if key == "" {
			once := service
			once.Command = strings.Fields(regexp.MustCompile(`run --rm node1 (.+)`).FindStringSubmatch(text)[1])
			create := once.line(replaced, e2e.Sluice, "AWS_SECRET_ACCESS_KEY=secret")
			key = strings.TrimSpace(string(testenv.Must(exec.Command(create[0], create[1:]...).Output())(t)))
		}
		node := &e2e.Server{T: t, Data: data}
		node.Run(service.line(replaced, e2e.Sluice, "AWS_SECRET_ACCESS_KEY=secret", "SLUICE_ADMIN_ADDR=127.0.0.1:0"))
		t.Cleanup(func() { node.Stop(); node.CheckLog() })
		nodes = append(nodes, node)
	}
	for i, node := range nodes {
		target := e2e.BlobTarget("bob", []string{"first", "second"}[i])
		node.Must(401, "PUT", target, []byte("body"))
		node.As(key).Must(204, "PUT", target, []byte("body"))
		nodes[1-i].Must(401, "GET", target, nil)
		nodes[1-i].As(key).Holds(target, []byte("body"))
	}
}

// imageEnvironment returns the variables that the container image sets.
func imageEnvironment(t *testing.T, deploy string) map[string]string {
	t.Helper()
	text := string(testenv.Must(os.ReadFile(filepath.Join(deploy, "dist/image.go")))(t))
	variables := map[string]string{}
	for _, pair := range regexp.MustCompile(`"(SLUICE_\w+)=([^"]*)"`).FindAllStringSubmatch(text, -1) {
		variables[pair[1]] = pair[2]
	}
	testenv.Equal(t, len(variables), 4, "variables of the image")
	return variables
}
