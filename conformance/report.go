package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Report is the results of a run.
type Report struct {
	URL     string    `json:"url"`
	Version string    `json:"version,omitempty"` // the server's, if it publishes one
	Level   Level     `json:"level"`
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"`

	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	Skipped  int `json:"skipped"`
	Requests int `json:"requests"` // that the cases sent

	Results []Result `json:"-"`
	// Left names the blobs and uploads that could not be removed.
	Left []string `json:"left"`
}

func (r *Report) add(result Result) {
	r.Results = append(r.Results, result)
	r.Requests += result.Requests
	switch result.Outcome {
	case Passed:
		r.Passed++
	case Failed:
		r.Failed++
	case Skipped:
		r.Skipped++
	}
}

// Conforms reports whether no case failed and nothing was left behind.
func (r *Report) Conforms() bool { return r.Failed == 0 && len(r.Left) == 0 }

// The elements of a JUnit report, as the common CI systems read them.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Started  string      `xml:"timestamp,attr"`
		Cases    []junitCase `xml:"testcase"`
		Errors   string      `xml:"system-err,omitempty"`
	}
	junitCase struct {
		Name    string       `xml:"name,attr"`
		Class   string       `xml:"classname,attr"`
		Time    string       `xml:"time,attr"`
		Failure *junitReason `xml:"failure"`
		Skipped *junitReason `xml:"skipped"`
	}
	junitReason struct {
		Message string `xml:"message,attr"`
	}
)

// WriteJUnit writes the report in JUnit's XML format.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{
		Name: "sluice conformance " + r.URL, Tests: len(r.Results), Failures: r.Failed, Skipped: r.Skipped,
		Time: seconds(r.Seconds), Started: r.Started.Format(time.RFC3339),
	}
	if len(r.Left) > 0 {
		suite.Errors = "left behind: " + strings.Join(r.Left, ", ")
	}
	for _, result := range r.Results {
		c := junitCase{Name: result.Name, Class: result.Level.String() + "." + result.Section, Time: seconds(result.Seconds)}
		switch result.Outcome {
		case Failed:
			c.Failure = &junitReason{result.Reason}
		case Skipped:
			c.Skipped = &junitReason{result.Reason}
		}
		suite.Cases = append(suite.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suite); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", s) }
