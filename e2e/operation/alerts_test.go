package operation

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"sluice/e2e"
	"sluice/node"
	"sluice/test/testenv"
)

// alertRule is a rule of deploy/alerts.yaml.
type alertRule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alertRule }
	}
	testenv.OK(t, yaml.Unmarshal([]byte(deployed(t, "alerts.yaml")), &file))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 20 {
		t.Fatalf("deploy/alerts.yaml has %d groups, want one with the rules", len(file.Groups))
	}
	return file.Groups[0].Rules
}

// promtool runs promtool in the folder deploy.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	root, err := testenv.Root()
	testenv.OK(t, err)
	command := exec.CommandContext(t.Context(), "promtool", args...)
	command.Dir = filepath.Join(root, "deploy")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestAlerts checks the alerts and their tests by promtool. The tests must have each alert firing
// and not firing, and must have a section in the runbook.
// Invariant 139.
func TestAlerts(t *testing.T) {
	testenv.Require(t, testenv.Promtool)
	t.Parallel()
	promtool(t, "check", "rules", "alerts.yaml")
	promtool(t, "test", "rules", "alerts_test.yaml")
	var tests struct {
		Tests []struct {
			Cases []struct {
				Alert    string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	testenv.OK(t, yaml.Unmarshal([]byte(deployed(t, "alerts_test.yaml")), &tests))
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, c := range test.Cases {
			if len(c.Expected) > 0 {
				fires[c.Alert] = true
			} else {
				quiet[c.Alert] = true
			}
		}
	}
	sections := runbookSections(t)
	for _, rule := range alertRules(t) {
		if !fires[rule.Alert] || !quiet[rule.Alert] {
			t.Errorf("%s is tested firing: %t, not firing: %t", rule.Alert, fires[rule.Alert], quiet[rule.Alert])
		}
		if want := "docs/runbook.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook"] != want {
			t.Errorf("%s has the runbook %q, want %q", rule.Alert, rule.Annotations["runbook"], want)
		}
		if !slices.Contains([]string{"critical", "warning"}, rule.Labels["severity"]) || rule.Annotations["summary"] == "" {
			t.Errorf("%s has the severity %q and the summary %q", rule.Alert, rule.Labels["severity"], rule.Annotations["summary"])
		}
		if !sections[rule.Alert] {
			t.Errorf("docs/runbook.md has no section %s", rule.Alert)
		}
		delete(sections, rule.Alert)
	}
	for section := range sections {
		t.Errorf("docs/runbook.md has the section %s, which is no alert", section)
	}
}

// runbookSections returns the second-level headings. Each section must explain the alert, where to
// look and what to do.
func runbookSections(t *testing.T) map[string]bool {
	t.Helper()
	sections := map[string]bool{}
	alerts, _, found := strings.Cut(runbook(t), "\n## Without an alert\n")
	if !found {
		t.Error("docs/runbook.md has no section for faults without an alert")
	}
	for _, section := range strings.Split(alerts, "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		for _, part := range []string{"**Means.**", "**Look.**", "**Do"} {
			if !strings.Contains(text, part) {
				t.Errorf("the section %s of docs/runbook.md lacks %s", name, part)
			}
		}
		sections[name] = true
	}
	return sections
}

func runbook(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/runbook.md")
	testenv.OK(t, err)
	return string(text)
}

// runRunbook runs the runbook's commands that query a server.
func runRunbook(s *e2e.Server, t *testing.T) {
	commands := 0
	for _, block := range strings.Split(runbook(t), "```sh\n")[1:] {
		script, _, _ := strings.Cut(block, "```")
		commands++
		if strings.Contains(script, "$URL/") {
			out, err := exec.CommandContext(t.Context(), "env", "URL="+s.URL, "KEY=none", "sh", "-c", script).CombinedOutput()
			if err != nil || !strings.Contains(string(out), `"channels":`) {
				t.Errorf("%s%v: %s", script, err, out)
			}
			continue
		}
		if !strings.Contains(script, "localhost:9091") {
			t.Errorf("a command of docs/runbook.md that the test does not know:\n%s", script)
			continue
		}
		script = strings.ReplaceAll(script, "http://localhost:9091", s.Admin())
		// grep returns 1 if nothing is wrong and no line matches.
		out, err := exec.CommandContext(t.Context(), "sh", "-c", script+"[ $? -le 1 ]").CombinedOutput()
		if err != nil {
			t.Errorf("%s%v: %s", script, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if !strings.HasPrefix(line, "sluice_") {
				t.Errorf("%sprints %q", script, line)
			}
		}
	}
	if commands < 5 {
		t.Errorf("docs/runbook.md has %d commands", commands)
	}
}

// panel is a panel of deploy/grafana.json.
type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource struct{ UID string }
	GridPos    struct{ X, Y, W, H int }
	Targets    []struct{ Expr, RefID string }
}

// dashboard returns the panels of deploy/grafana.json.
func dashboard(t *testing.T) []panel {
	t.Helper()
	var d struct {
		UID, Title    string
		SchemaVersion int
		Panels        []panel
		Templating    struct {
			List []struct {
				Name, Type string
				Current    *struct{ Text, Value any }
			}
		}
	}
	testenv.OK(t, json.Unmarshal([]byte(deployed(t, "grafana.json")), &d))
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Current != nil && (v.Current.Text == nil || v.Current.Value == nil) {
			t.Errorf("the variable %s has a current value without text and value", v.Name)
		}
	}
	if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 || !slices.Equal(variables, []string{"datasource", "job", "instance"}) {
		t.Errorf("the dashboard %q (%q) of schema %d has the variables %v", d.Title, d.UID, d.SchemaVersion, variables)
	}
	return d.Panels
}

// queriesOf returns the dashboard's queries with values for its variables.
func queriesOf(panels []panel) (queries []string) {
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", "sluice", "$instance", ".*")
	for _, p := range panels {
		for _, target := range p.Targets {
			queries = append(queries, variables.Replace(target.Expr))
		}
	}
	return queries
}

// TestDashboard checks Grafana's requirements for an imported dashboard, and that each query is
// valid. The dashboard must begin with the rows that an operator asks for.
// Invariant 139.
func TestDashboard(t *testing.T) {
	testenv.Require(t, testenv.Promtool)
	t.Parallel()
	panels := dashboard(t)
	ids := map[int]bool{}
	cells := map[[2]int]string{}
	var rows []string
	for _, p := range panels {
		if p.ID < 1 || ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has no title, or an id of another", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else if !slices.Contains([]string{"stat", "timeseries", "bargauge"}, p.Type) || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s is a %s with %d queries of %q", p.Title, p.Type, len(p.Targets), p.Datasource.UID)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if target.Expr == "" || target.RefID == "" || refs[target.RefID] {
				t.Errorf("%s has the query %q with the id %q", p.Title, target.Expr, target.RefID)
			}
			refs[target.RefID] = true
		}
		if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X < 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is outside the grid: %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cells[cell] != "" {
					t.Fatalf("%s covers %s", p.Title, cells[cell])
				}
				cells[cell] = p.Title
			}
		}
	}
	if want := []string{"Is it well?", "What is it doing?", "What will run out next?"}; len(rows) < 3 || !slices.Equal(rows[:3], want) {
		t.Errorf("the first rows are %q, want %q", rows, want)
	}
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var rules []rule
	for _, query := range queriesOf(panels) {
		rules = append(rules, rule{"query", query})
	}
	// promtool refuses equal rules, which the panels may have.
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.Expr, b.Expr) })
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": slices.Compact(rules)}}})
	testenv.OK(t, err)
	path := filepath.Join(t.TempDir(), "rules.yaml")
	testenv.OK(t, os.WriteFile(path, text, 0o600))
	promtool(t, "check", "rules", "--lint=none", path)
}

// TestDashboardHasTheTypesOfGrafana checks the dashboard against the types that Grafana publishes:
// no field is unknown, missing, or of another type.
// Invariant 139.
func TestDashboardHasTheTypesOfGrafana(t *testing.T) {
	testenv.Require(t, testenv.NPM)
	t.Parallel()
	clientDir, err := testenv.ClientDir()
	testenv.OK(t, err)
	dir, modules := t.TempDir(), filepath.Join(clientDir, "node_modules")
	testenv.OK(t, os.Symlink(modules, filepath.Join(dir, "node_modules")))
	// errorsOf returns the compiler's errors.
	errorsOf := func(dashboard string) string {
		testenv.OK(t, os.WriteFile(filepath.Join(dir, "grafana.json"), []byte(dashboard), 0o600))
		e2e.RunIn(t, dir, "node", filepath.Join(clientDir, "dashboard.mjs"), "grafana.json", "dashboard.ts")
		compiler := exec.CommandContext(t.Context(), "node", filepath.Join(modules, "typescript/bin/tsc"), "--noEmit", "--strict", "--skipLibCheck",
			"--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "dashboard.ts")
		compiler.Dir = dir
		out, err := compiler.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out)
	}
	text := deployed(t, "grafana.json")
	if found := errorsOf(text); found != "" {
		t.Error(found)
	}
	changes := [][2]string{{`"gridPos"`, `"grid"`}, {`"graphMode": "none"`, `"graphMode": "no"`}, {`"placement": "bottom"`, `"placement": "below"`}, {`"drawStyle": "line"`, `"drawStyle": "lines"`}}
	for _, change := range changes {
		if !strings.Contains(text, change[0]) {
			t.Errorf("the dashboard has no %s", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	found := errorsOf(text)
	for _, name := range []string{"'\"grid\"'", "'\"no\"'", "'\"below\"'", "'\"lines\"'"} {
		if !strings.Contains(found, name) {
			t.Errorf("a dashboard with %s compiles:\n%s", name, found)
		}
	}
}

var metricName = regexp.MustCompile(`\b(?:sluice|process|go)_\w+`)

// checkNamesIn checks that servers have reported each metric in a query.
func checkNamesIn(t *testing.T, label string, queries []string, found map[string]bool) {
	t.Helper()
	names := map[string]bool{}
	for _, query := range queries {
		for _, name := range metricName.FindAllString(query, -1) {
			names[name] = true
		}
	}
	if len(names) < 20 {
		t.Errorf("%s names %d metrics", label, len(names))
	}
	for name := range names {
		family := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if cut, is := strings.CutSuffix(name, suffix); is && found[cut] {
				family = cut
			}
		}
		if !found[family] {
			t.Errorf("%s names %s, which no server reports", label, name)
		}
	}
}

// TestRunbookNamesExist checks that sluice describes each metric in the runbook.
func TestRunbookNamesExist(t *testing.T) {
	described := map[string]bool{}
	for _, m := range node.DescribeMetrics() {
		described[m.Name] = true
	}
	for _, name := range regexp.MustCompile("`(sluice_\\w+)`").FindAllStringSubmatch(runbook(t), -1) {
		if !described[name[1]] {
			t.Errorf("docs/runbook.md names the metric %s, which does not exist", name[1])
		}
	}
}
