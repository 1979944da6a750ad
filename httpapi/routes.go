package httpapi

import (
	"fmt"

	"sluice/access"
	"sluice/httpapi/internal/router"
	"sluice/internal/auditlog"
	"sluice/wire/link"
)

// newRouter returns a router for a table, or an error if a route has no rule or no handler.
func newRouter(basePath string, table []router.Route[operation]) (*router.Router[operation], error) {
	for _, r := range table {
		if r.Value.rule == nil || r.Value.handle == nil {
			return nil, fmt.Errorf("route %s %s has no rule or no handler", r.Method, r.Pattern)
		}
	}
	return router.New(basePath, table)
}

// routes returns the table of all operations and who may use them.
func routes(s *Server) []router.Route[operation] {
	upload := requireKeyFor(access.ScopeCreate, s.placeOfUpload)
	channel := requireKeyFor(access.ScopeChannels, s.placeOfChannel)
	var table []router.Route[operation]
	add := func(method, pattern string, rule rule, handle func(*call) error) {
		table = append(table, router.Route[operation]{Method: method, Pattern: pattern, Value: operation{rule: rule, handle: handle, fault: faultOperations[pattern]}})
	}
	write := func(method, pattern string, rule rule, handle func(*call) error) {
		add(method, pattern, rule, handle)
		table[len(table)-1].Value.writes = true
	}
	audits := func(action auditlog.Action) { table[len(table)-1].Value.audits = action }
	permits := func(verb link.Verb) { table[len(table)-1].Value.link = verb }
	unprefixed := func(method, pattern string, op operation) {
		table = append(table, router.Route[operation]{Method: method, Pattern: pattern, Value: op, Unprefixed: true})
	}

	write("POST", "/v1/sessions", public(), s.createSession)
	add("GET", "/v1/sessions/{sessionId}", public(), s.getSession)
	write("POST", "/v1/sessions/{sessionId}/use", public(), s.useSession)
	write("POST", "/v1/sessions/micropaymentchannels", requireScope(access.ScopeChannels), s.openChannel)
	add("GET", "/v1/sessions/micropaymentchannels/{channelId}", public(), s.getChannel)
	write("POST", "/v1/sessions/micropaymentchannels/{channelId}/deposit", channel, s.addDeposit)
	write("POST", "/v1/sessions/micropaymentchannels/{channelId}/close", channel, s.closeChannel)
	write("POST", "/v1/sessions/micropaymentchannels/{channelId}/renew", public(), s.renewPayment)
	write("POST", "/v1/sessions/micropaymentchannels/{channelId}/reconcile", requireKey(access.ScopeAdmin, everyPlace), s.reconcileChannel)

	add("GET", "/v1/accounts", requireKey(access.ScopeAdmin, everyPlace), s.listAccounts)
	add("GET", "/v1/changes", s.mayListChanges, s.getChanges)
	permits(link.Read)
	table[len(table)-1].Value.lists, table[len(table)-1].Value.reads = true, true
	add("GET", "/v1/blobs/{account}", s.mayList(false), s.listBlobs)
	permits(link.Read)
	table[len(table)-1].Value.lists, table[len(table)-1].Value.reads = true, true
	add("GET", "/v1/blobs/{account}/{blobName...}", s.mayRead, s.getBlob)
	permits(link.Read)
	table[len(table)-1].Value.reads = true
	audits(auditlog.Read)
	write("PUT", "/v1/blobs/{account}/{blobName...}", requireKey(access.ScopeCreate, blobInPath), s.putBlob)
	permits(link.Create)
	audits(auditlog.Write)
	write("POST", "/v1/blobs/{account}/{blobName...}", requireScopeAt(access.ScopeCreate, blobInPath), s.copyBlob)
	audits(auditlog.Copy)
	write("DELETE", "/v1/blobs/{account}/{blobName...}", requireKey(access.ScopeWrite, blobInPath), s.deleteBlob)
	audits(auditlog.Delete)

	add("GET", "/v1/versions/{account}", s.mayList(true), s.listVersions)
	table[len(table)-1].Value.reads = true
	add("GET", "/v1/versions/{account}/{version}/{blobName...}", s.mayReadVersion, s.getVersion)
	table[len(table)-1].Value.reads = true
	audits(auditlog.Read)
	write("POST", "/v1/versions/{account}/{version}/{blobName...}", requireScopeAt(access.ScopeCreate, versionInPath), s.copyVersion)
	audits(auditlog.Copy)
	write("PATCH", "/v1/versions/{account}/{version}/{blobName...}", requireKey(access.ScopeRetain, versionInPath), s.setLock)
	audits(auditlog.Write)
	write("DELETE", "/v1/versions/{account}/{version}/{blobName...}", requireKey(access.ScopeAdmin, versionInPath), s.deleteVersion)
	audits(auditlog.Delete)

	write("POST", "/v1/multipart-uploads", requireScope(access.ScopeCreate), s.beginUpload)
	add("GET", "/v1/multipart-uploads", requireKey(access.ScopeWrite, listInQuery), s.listUploads)
	add("GET", "/v1/multipart-uploads/{uploadId}", upload, s.getUpload)
	write("DELETE", "/v1/multipart-uploads/{uploadId}", upload, s.abortUpload)
	write("PUT", "/v1/multipart-uploads/{uploadId}/parts/{partIdx}", requireKeyFor(access.ScopeCreate, s.placeOfPart), s.putPart)
	write("POST", "/v1/multipart-uploads/{uploadId}/complete", upload, s.completeUpload)

	add("GET", "/v1/info", public(), s.getInfo)
	add("GET", "/v1/figures", requireKey(access.ScopeAdmin, everyPlace), s.getFigures)
	// Ids of channels are capabilities, so a hosted network lists them for its operators only.
	add("GET", "/v1/channels", requireKey(access.ScopeAdmin, everyPlace), s.listChannels)
	add("GET", "/v1/channels/{channelId}/ledger", requireKey(access.ScopeAdmin, everyPlace), s.getLedger)
	if s.keys == nil {
		add("GET", "/v1/local/faults", public(), s.getFaults)
		add("PUT", "/v1/local/faults", public(), s.putFaults)
		add("DELETE", "/v1/local/faults", public(), s.deleteFaults)
		add("GET", "/v1/local/sessions", public(), s.listSessions)
	}
	if s.faucet {
		write("POST", "/v1/local/faucet", public(), s.openFaucet)
	}
	if s.admin != nil && s.adminRouter == nil {
		table = append(table, adminRoutes(s)...)
	}
	unprefixed("GET", "/livez", operation{rule: public(), handle: s.livez, probe: true})
	unprefixed("GET", "/readyz", operation{rule: public(), handle: s.readyz, probe: true})
	unprefixed("GET", "/openapi.yaml", operation{rule: public(), handle: s.getOpenAPI})
	if s.console != nil { // its files are no operations, so OpenAPI does not describe them
		add("GET", "/console", public(), redirectToConsole)
		add("GET", "/console/{file...}", public(), s.getConsole)
	}
	return table
}
