package operation

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/e2e"
	"sluice/internal/metrics"
	"sluice/node"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestMetrics uses a local instance and a hosted service's node over PostgreSQL and an object
// store, and checks their metrics: by promtool, and against their descriptions. The dashboard and
// the alerts use no further metrics, and Prometheus can evaluate them, and the runbook's commands
// work.
// Invariants 137, 139.
func TestMetrics(t *testing.T) {
	testenv.Require(t, testenv.PostgreSQL, testenv.VersityGW, testenv.Promtool)
	t.Parallel()
	local := e2e.Start(t, e2e.Options{Flags: []string{"--admin-addr", "127.0.0.1:0"}})
	nodes := e2e.NewCluster(t, e2e.Options{Certs: e2e.NewCertificates(t), Flags: []string{"--admin-addr", "127.0.0.1:0", "--cache", filepath.Join(t.TempDir(), "cache")}})
	nodes.Start(1)
	found := map[string]bool{}
	for profile, s := range map[string]*e2e.Server{"local": local, "hosted": nodes.Nodes[0]} {
		t.Run(profile, func(t *testing.T) {
			provoke(s, t)
			text := s.MetricsOf()
			checkByPromtool(t, text)
			checkLabels(t, text)
			maps.Copy(found, families(text))
		})
	}
	for _, m := range node.DescribeMetrics() {
		if !found[m.Name] {
			t.Errorf("%s is described, and no server has it", m.Name)
		}
	}
	runRunbook(local, t)
	checkNamesIn(t, "deploy/grafana.json", queriesOf(dashboard(t)), found)
	var alerts []string
	for _, rule := range alertRules(t) {
		alerts = append(alerts, rule.Expr)
	}
	checkNamesIn(t, "deploy/alerts.yaml", alerts, found)
	watch := startPrometheus(t, local, nodes.Nodes[0])
	watch.checkQueries(queriesOf(dashboard(t)), absentWhenWell)
	watch.checkRules()
	checkMetricsWithoutDatabase(nodes, t)
}

// checkMetricsWithoutDatabase stops the database: a node's metrics show that, and lack only metrics
// from the database.
func checkMetricsWithoutDatabase(c *e2e.Cluster, t *testing.T) {
	testenv.OK(t, c.Database.Stop())
	var text string
	e2e.Await(t, "a node without its database is ready", func() bool {
		text = c.Nodes[0].MetricsOf()
		return strings.Contains(text, "\nsluice_ready 0\n")
	})
	if !regexp.MustCompile(`sluice_not_ready\{reason="(metadata|no_answer)"\} 1`).MatchString(text) {
		t.Errorf("the metrics do not name the reason:\n%s", text)
	}
	found := families(text)
	for name, want := range map[string]bool{"sluice_blobs": false, "sluice_garbage_contents": false, "sluice_http_requests_total": true, "sluice_postgres_connections": true} {
		if found[name] != want {
			t.Errorf("without the database %s is among the metrics: %t", name, !want)
		}
	}
	testenv.OK(t, c.Database.Start())
	e2e.Await(t, "a node does not become ready again", func() bool { return strings.Contains(c.Nodes[0].MetricsOf(), "\nsluice_ready 1\n") })
}

// absentWhenWell matches the dashboard's queries that have no result while all is well.
var absentWhenWell = regexp.MustCompile(`^sluice_not_ready.* > 0$|refusals_total|ALERTS|deriv`)

// provoke sends requests of many routes and outcomes, with names that must not become labels.
func provoke(s *e2e.Server, t *testing.T) {
	at := *s
	at.T = t
	for i, size := range []int{10, 100 << 10, 3 << 20} {
		target := e2e.BlobTarget("0xacc", "private name "+string(rune('a'+i)))
		at.Must(204, "PUT", target, e2e.Content(1, size))
		at.Must(200, "GET", target, nil)
		at.Must(204, "DELETE", target, nil)
	}
	at.Do("GET", "/private/path", nil)
	at.Do("BREW", e2e.BlobTarget("0xacc", "private name"), nil)
	at.Do("GET", e2e.BlobTarget("0xacc", "private name"), nil)
	at.Do("GET", "/v1/sessions/private", nil)
	at.Do("GET", "/readyz", nil)
}

// checkByPromtool checks names, types, units and help texts.
func checkByPromtool(t *testing.T, text string) {
	t.Helper()
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}

var (
	sampleLine = regexp.MustCompile(`^(sluice_\w+?)(_bucket|_sum|_count)?(?:\{(.*)\})? \S+$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (\S+) `)
	routeLine  = regexp.MustCompile(`(?m)^  (/\S*):$`)
)

// checkLabels checks that the product describes each metric, and that each label has one of a few
// values known beforehand.
func checkLabels(t *testing.T, text string) {
	t.Helper()
	described := map[string]metrics.Metric{}
	for _, m := range node.DescribeMetrics() {
		described[m.Name] = m
	}
	methods := []string{"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "other"}
	routes := []string{""}
	for _, found := range routeLine.FindAllStringSubmatch(string(wire.OpenAPI), -1) {
		routes = append(routes, found[1])
	}
	samples, reported := 0, map[string]bool{}
	for line := range strings.Lines(text) {
		found := sampleLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if found == nil {
			continue
		}
		samples++
		m, ok := described[found[1]]
		if !ok {
			m, ok = described[found[1]+found[2]] // a name that ends like a histogram's part
		}
		if !ok {
			t.Errorf("%s is not described", found[1])
			continue
		}
		for _, pair := range labelPair.FindAllStringSubmatch(found[3], -1) {
			label, value := pair[1], pair[2]
			known := false
			switch {
			case label == "le" && m.Type == metrics.TypeHistogram:
				known = true // the bounds are constants
			case m.Name == "sluice_build_info":
				known = true // about the process
			case strings.HasPrefix(m.Name, "sluice_http_request") && label == "route":
				known = slices.Contains(routes, strings.ReplaceAll(value, "...}", "}")) // a name with slashes
			case strings.HasPrefix(m.Name, "sluice_http_request") && label == "method":
				known = slices.Contains(methods, value)
			case m.Name == "sluice_http_requests_total" && label == "code":
				known = len(value) == 3
			default:
				known = label == m.Label && slices.Contains(m.Values, value)
			}
			if !known && !reported[m.Name+pair[0]] {
				reported[m.Name+pair[0]] = true
				t.Errorf("%s has the label %s=%q, which is not described", m.Name, label, value)
			}
		}
	}
	if samples < 100 {
		t.Errorf("only %d samples", samples)
	}
}

// families returns the metrics' names.
func families(text string) map[string]bool {
	names := map[string]bool{}
	for _, found := range typeLine.FindAllStringSubmatch(text, -1) {
		names[found[1]] = true
	}
	return names
}

// deployed returns a file in the folder deploy.
func deployed(t *testing.T, name string) string {
	t.Helper()
	root, err := testenv.Root()
	testenv.OK(t, err)
	text, err := os.ReadFile(filepath.Join(root, "deploy", name))
	testenv.OK(t, err)
	return string(text)
}
