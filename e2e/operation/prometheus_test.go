package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// prometheusConfig scrapes servers often, and evaluates the alerts.
const prometheusConfig = `global: {scrape_interval: 200ms, evaluation_interval: 200ms}
rule_files: [%s]
scrape_configs:
  - job_name: sluice
    static_configs:
      - targets: [%s]
`

// prometheusLine matches the line of its log that has the address.
var prometheusLine = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// prometheus is a running Prometheus.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus runs Prometheus with the alerts in the folder deploy over the servers' admin
// addresses, and stops it when the test ends.
func startPrometheus(t *testing.T, servers ...*e2e.Server) *prometheus {
	t.Helper()
	dir := t.TempDir()
	alerts := filepath.Join(dir, "alerts.yaml")
	var targets []string
	for _, s := range servers {
		targets = append(targets, strings.TrimPrefix(s.Admin(), "http://"))
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf(prometheusConfig, alerts, strings.Join(targets, ", "))
	testenv.OK(t, errors.Join(os.WriteFile(alerts, []byte(deployed(t, "alerts.yaml")), 0o600), os.WriteFile(config, []byte(text), 0o600)))
	command := exec.Command("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address=127.0.0.1:0")
	log := &e2e.LogBuffer{}
	command.Stdout, command.Stderr = log, log
	testenv.OK(t, command.Start())
	t.Cleanup(func() {
		if err := errors.Join(command.Process.Signal(syscall.SIGTERM), command.Wait()); err != nil {
			t.Errorf("prometheus: %v\n%s", err, e2e.Tail(log.String()))
		}
	})
	var found []string
	e2e.Await(t, "prometheus does not listen", func() bool {
		found = prometheusLine.FindStringSubmatch(log.String())
		return found != nil
	})
	return &prometheus{t, "http://" + found[1]}
}

// get decodes an API response's data.
func (p *prometheus) get(path string, query url.Values, data any) error {
	r, err := e2e.Client.Get(p.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	body := struct {
		Error string
		Data  any
	}{Data: data}
	if err := errors.Join(json.NewDecoder(r.Body).Decode(&body), r.Body.Close()); err != nil {
		return err
	}
	if r.StatusCode != 200 {
		return fmt.Errorf("%d: %s", r.StatusCode, body.Error)
	}
	return nil
}

// count returns the number of series that a query returns.
func (p *prometheus) count(query string) (int, error) {
	var data struct{ Result []any }
	err := p.get("/api/v1/query", url.Values{"query": {query}}, &data)
	return len(data.Result), err
}

// checkQueries checks that Prometheus can evaluate each query, and that all have a result, except
// the ones in optional.
func (p *prometheus) checkQueries(queries []string, optional *regexp.Regexp) {
	p.t.Helper()
	e2e.Await(p.t, "prometheus has no rates", func() bool {
		n, err := p.count(`rate(sluice_sqlite_batch_calls_sum[5m]) and on () rate(sluice_postgres_connection_waits_total[5m]) and on () sluice_census_timestamp_seconds`)
		return err == nil && n > 0
	})
	for _, query := range queries {
		n, err := p.count(query)
		if err != nil || n == 0 && !optional.MatchString(query) {
			p.t.Errorf("%s\nhas %d results, %v", query, n, err)
		}
	}
}

// checkRules checks that the alerts have been evaluated without an error.
func (p *prometheus) checkRules() {
	p.t.Helper()
	type rule struct{ Name, Health, LastError string }
	var data struct {
		Groups []struct{ Rules []rule }
	}
	e2e.Await(p.t, "prometheus does not evaluate the alerts", func() bool {
		err := p.get("/api/v1/rules", nil, &data)
		return err == nil && len(data.Groups) == 1 && data.Groups[0].Rules[len(data.Groups[0].Rules)-1].Health != "unknown"
	})
	for _, r := range data.Groups[0].Rules {
		if r.Health != "ok" {
			p.t.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
		}
	}
}
