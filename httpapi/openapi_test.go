package httpapi

import (
	"context"
	"errors"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice/access"
	"sluice/access/keys"
	"sluice/admin"
	"sluice/exchange"
	"sluice/test/testenv"
	"sluice/wire"
)

// loadOpenAPI parses and validates the document.
func loadOpenAPI(t *testing.T) *openapi3.T {
	t.Helper()
	doc := testenv.Must(openapi3.NewLoader().LoadFromData(wire.OpenAPI))(t)
	testenv.OK(t, doc.Validate(context.Background()))
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
	for _, r := range routes(&Server{faucet: true, admin: &admin.Service{}}) {
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
	s := testenv.Must(New(Config{Reads: access.ReadsPublic, Faucet: true, Admin: &admin.Service{}}))(t)
	account := regexp.MustCompile(`\{[^}]*\}`)
	for _, r := range s.router.Routes() {
		path := strings.ReplaceAll(r.Pattern, "{version}", strings.Repeat("0", 32))
		m := s.router.Match(r.Method, account.ReplaceAllString(path, "0x1"))
		request := httptest.NewRequest(r.Method, "/?account=0x1", nil)
		err := r.Value.rule(&call{Exchange: exchange.Exchange{Request: request}, params: m.Params})
		if err != nil && !errors.Is(err, exchange.ErrNoCredential) {
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

// TestOpenAPISchemasAreTheBodies compares the schemas' members with the members of the types that
// the server sends and reads.
func TestOpenAPISchemasAreTheBodies(t *testing.T) {
	schemas := loadOpenAPI(t).Components.Schemas
	for name, body := range map[string]any{
		"Account": wire.Account{}, "AccountPage": wire.AccountPage{}, "Blob": wire.Blob{}, "BlobName": wire.BlobName{}, "CopyBlob": wire.CopyBlob{}, "CopiedBlob": wire.CopiedBlob{},
		"BlobPage": wire.BlobPage{}, "Change": wire.Change{}, "ChangePage": wire.ChangePage{}, "Version": wire.Version{}, "VersionPage": wire.VersionPage{}, "SetKeeping": wire.SetKeeping{}, "Keeping": wire.Keeping{}, "KeepingPage": wire.KeepingPage{},
		"Rule": wire.Rule{}, "SetRules": wire.SetRules{}, "RuleCounts": wire.RuleCounts{}, "RuleRun": wire.RuleRun{}, "Rules": wire.Rules{}, "RulesPage": wire.RulesPage{}, "PreviewRules": wire.PreviewRules{}, "RulesPreview": wire.RulesPreview{},
		"UploadBegun": wire.UploadBegun{}, "Success": wire.Success{}, "Part": wire.Part{}, "Upload": wire.Upload{},
		"UploadStatus": wire.UploadStatus{}, "UploadPage": wire.UploadPage{}, "Session": wire.Session{}, "Channel": wire.Channel{},
		"ChannelSession": wire.ChannelSession{}, "Info": wire.Info{}, "Rates": wire.Rates{}, "Payment": wire.Payment{},
		"Limits": wire.Limits{}, "Problem": wire.Problem{}, "Faults": wire.Faults{}, "FaultRule": wire.FaultRule{},
		"SessionPage": wire.SessionPage{}, "ChannelPage": wire.ChannelPage{}, "Ledger": wire.Ledger{}, "Sale": wire.Sale{}, "Settlement": wire.Settlement{},
		"Figures": wire.Figures{}, "StorageFigures": wire.StorageFigures{}, "GarbageFigures": wire.GarbageFigures{}, "SessionFigures": wire.SessionFigures{},
		"ChannelFigures": wire.ChannelFigures{}, "Interval": wire.Interval{},
		"BeginUpload": wire.BeginUpload{}, "CompleteUpload": wire.CompleteUpload{}, "CreateSession": wire.CreateSession{},
		"Grant": wire.Grant{}, "CreateKey": wire.CreateKey{}, "UpdateKey": wire.UpdateKey{}, "Key": wire.Key{}, "IssuedKey": wire.IssuedKey{}, "KeyPage": wire.KeyPage{},
		"Group": wire.Group{}, "UpdateGroup": wire.UpdateGroup{}, "GroupPage": wire.GroupPage{}, "SetAlias": wire.SetAlias{}, "Alias": wire.Alias{}, "AliasPage": wire.AliasPage{},
		"Damage": wire.Damage{}, "DamagedBlob": wire.DamagedBlob{}, "DamagePage": wire.DamagePage{}, "OpenUpload": wire.OpenUpload{}, "OpenUploadPage": wire.OpenUploadPage{},
		"Action": wire.Action{}, "ActionPage": wire.ActionPage{},
		"Task": wire.Task{}, "TaskRun": wire.TaskRun{}, "TaskList": wire.TaskList{}, "Node": wire.Node{}, "NodeList": wire.NodeList{},
		"RenewPayment": wire.RenewPayment{}, "ReconcileChannel": wire.ReconcileChannel{}, "Reconciliation": wire.Reconciliation{}, "ChainChannel": wire.ChainChannel{},
	} {
		schema := schemas[name]
		if schema == nil {
			t.Errorf("there is no schema %s", name)
			continue
		}
		members, required := membersOf(reflect.TypeOf(body))
		described, describedAlways := describedMembers(schema.Value)
		if !slices.Equal(described, members) {
			t.Errorf("%s has the members %v, and %v are described", name, members, described)
		}
		request := name == "BeginUpload" || name == "CompleteUpload" || name == "CreateSession" || name == "RenewPayment" || name == "ReconcileChannel" || name == "CopyBlob" || name == "BlobName" || name == "CreateKey" || name == "UpdateKey"
		if !request && !slices.Equal(describedAlways, required) { // a request states its own
			t.Errorf("%s always has the members %v, and %v are described as required", name, required, describedAlways)
		}
	}
	var rates []string
	for _, k := range keys.LimitKinds {
		rates = append(rates, k.Member())
	}
	slices.Sort(rates)
	if described, _ := describedMembers(schemas["Rate"].Value); !slices.Equal(described, rates) {
		t.Errorf("the limits are %v, and %v are described", rates, described)
	}
}

// membersOf returns a type's JSON members, and those that are never omitted, sorted.
func membersOf(body reflect.Type) (all, always []string) {
	for i := range body.NumField() {
		field := body.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			inner, innerAlways := membersOf(field.Type)
			all, always = append(all, inner...), append(always, innerAlways...)
			continue
		}
		all = append(all, name)
		if !strings.Contains(options, "omit") {
			always = append(always, name)
		}
	}
	slices.Sort(all)
	slices.Sort(always)
	return all, always
}

// describedMembers returns a schema's members and the required ones, sorted.
func describedMembers(schema *openapi3.Schema) (all, required []string) {
	for _, part := range schema.AllOf {
		inner, innerRequired := describedMembers(part.Value)
		all, required = append(all, inner...), append(required, innerRequired...)
	}
	for name := range schema.Properties {
		all = append(all, name)
	}
	required = append(required, schema.Required...)
	slices.Sort(all)
	slices.Sort(required)
	return all, required
}

// TestOpenAPIBodiesHaveSchemasAndExamples checks each body in the document, except those that are
// bytes. The examples match their schemas: loadOpenAPI validates them.
func TestOpenAPIBodiesHaveSchemasAndExamples(t *testing.T) {
	doc := loadOpenAPI(t)
	bodies := 0
	check := func(where string, content openapi3.Content) {
		for kind, body := range content {
			if kind == "*/*" || kind == "application/yaml" {
				continue
			}
			bodies++
			if body.Example == nil && len(body.Examples) == 0 {
				t.Errorf("%s: %s has no example", where, kind)
			}
			if strings.HasSuffix(kind, "json") && body.Schema.Ref == "" {
				t.Errorf("%s: the schema of %s has no name", where, kind)
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			where := method + " " + path
			if op.RequestBody != nil {
				check(where, op.RequestBody.Value.Content)
			}
			for status, response := range op.Responses.Map() {
				check(where+" "+status, response.Value.Content)
			}
		}
	}
	if bodies < 60 {
		t.Errorf("only %d bodies were checked", bodies)
	}
	doc.Components.Examples["Session"].Value.Value.(map[string]any)["chunksetsLeft"] = "many"
	if err := doc.Validate(t.Context()); err == nil {
		t.Error("an example that does not match its schema is valid")
	}
}
