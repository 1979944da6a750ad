package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice/wire"
)

// loadOpenAPI parses and validates the document.
func loadOpenAPI(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(wire.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestOpenAPIDescribesExactlyTheRoutes(t *testing.T) {
	var described []string
	for path, item := range loadOpenAPI(t).Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	var routed []string
	for _, r := range routes(&Server{}) {
		routed = append(routed, r.Method+" "+strings.ReplaceAll(r.Pattern, "...}", "}"))
	}
	slices.Sort(described)
	slices.Sort(routed)
	if !slices.Equal(described, routed) {
		t.Errorf("described:\n%s\nrouted:\n%s", strings.Join(described, "\n"), strings.Join(routed, "\n"))
	}
}

func TestOpenAPIOperationsAreWhole(t *testing.T) {
	ids := map[string]string{}
	for path, item := range loadOpenAPI(t).Paths.Map() {
		for method, op := range item.Operations() {
			where := method + " " + path
			if other, taken := ids[op.OperationID]; taken || op.OperationID == "" {
				t.Errorf("%s: operationId %q is empty or also that of %s", where, op.OperationID, other)
			}
			ids[op.OperationID] = where
			if op.Summary == "" || op.Responses.Default() == nil {
				t.Errorf("%s: it needs a summary and a default response", where)
			}
		}
	}
}

// TestOpenAPIDeclaresWhereAKeyIsRequired checks that the document requires a key for exactly those
// operations that need one with every kind of reads.
func TestOpenAPIDeclaresWhereAKeyIsRequired(t *testing.T) {
	asks := map[string]bool{}
	s, err := New(Config{Reads: ReadsPublic})
	if err != nil {
		t.Fatal(err)
	}
	account := regexp.MustCompile(`\{[^}]*\}`)
	for _, r := range s.router.Routes() {
		m := s.router.Match(r.Method, account.ReplaceAllString(r.Pattern, "0x1"))
		request := httptest.NewRequest(r.Method, "/?account=0x1", nil)
		err := r.Value.rule(&exchange{r: request, params: m.Params})
		if err != nil && !errors.Is(err, errNoCredential) {
			t.Errorf("%s %s: %v", r.Method, r.Pattern, err)
		}
		asks[r.Method+" "+strings.ReplaceAll(r.Pattern, "...}", "}")] = err != nil
	}
	for path, item := range loadOpenAPI(t).Paths.Map() {
		for method, op := range item.Operations() {
			where := method + " " + path
			if says := op.Security != nil && len(*op.Security) > 0; says != asks[where] {
				t.Errorf("%s: the document requires a key: %t, the server does: %t", where, says, asks[where])
			}
		}
	}
}
