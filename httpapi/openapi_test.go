package httpapi

import (
	"context"
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
	for _, r := range (&Server{}).routes() {
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

// Only what needs a key whatever the kind of reads says so in the document.
func TestOpenAPITellsWhereAKeyIsNeeded(t *testing.T) {
	asks := map[string]bool{}
	for _, r := range (&Server{Config: Config{Reads: ReadsPublic}}).routes() {
		asks[r.Method+" "+strings.ReplaceAll(r.Pattern, "...}", "}")] = r.Value.rule.who == keyHolders
	}
	for path, item := range loadOpenAPI(t).Paths.Map() {
		for method, op := range item.Operations() {
			where := method + " " + path
			if says := op.Security != nil && len(*op.Security) > 0; says != asks[where] {
				t.Errorf("%s: the document asks for a key: %t, the server does: %t", where, says, asks[where])
			}
		}
	}
}
