package e2e

import (
	"net/http"
	"regexp"
	"strconv"

	"sluice/test/testenv"
)

// MetricsOf returns the server's metrics in Prometheus' text format.
func (s *Server) MetricsOf() string {
	s.T.Helper()
	r, err := s.AdminGet("/metrics")
	if err != nil || r.Status != 200 {
		s.T.Fatalf("metrics: %v, %v", r, err)
	}
	return string(r.Body)
}

// Counter returns the value of a counter, which is named with its labels.
func (s *Server) Counter(name string) int {
	s.T.Helper()
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` ([0-9]+)$`).FindStringSubmatch(s.MetricsOf())
	if found == nil {
		s.T.Fatalf("there is no counter %s", name)
	}
	return testenv.Must(strconv.Atoi(found[1]))(s.T)
}

// AdminLine matches the log line that contains the admin address.
var AdminLine = regexp.MustCompile(`"serving metrics and profiles"(?: url=|,"url":")([^\s"]+)`)

// Admin returns the server's admin address. The server writes the log to another pipe than its
// ready line, so the test may read the log later.
func (s *Server) Admin() string {
	s.T.Helper()
	var found []string
	s.Eventually("the log does not contain the admin address", func() bool {
		found = AdminLine.FindStringSubmatch(s.Log.String())
		return found != nil
	})
	return found[1]
}

// AdminGet sends a GET to the admin address.
func (s *Server) AdminGet(path string) (Response, error) {
	request, err := http.NewRequest("GET", s.Admin()+path, nil)
	if err != nil {
		return Response{}, err
	}
	request.Close = true
	return s.Send(request)
}
