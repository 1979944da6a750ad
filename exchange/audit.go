package exchange

import (
	"cmp"
	"net/http"
	"time"

	"sluice/internal/auditlog"
	"sluice/wire"
)

// Audits reports whether the audit log has accesses of this kind.
func (s *Service) Audits(action auditlog.Action) bool {
	return s.audit != nil && action != "" && (action != auditlog.Read || s.auditReads)
}

// Audit adds an access to one of several blobs in this request to the audit log. err is its
// outcome.
func (x *Exchange) Audit(a auditlog.Access, err error) {
	if !x.service.Audits(a.Action) {
		return
	}
	status, code := http.StatusNoContent, ""
	if err != nil {
		row := x.door.Errors.RowOf(err)
		status, code = row.Status, string(row.Code)
	}
	x.addToAudit(a, status, code)
}

// auditAccess adds the exchange's own access, and its outcome, to the audit log. Failures that no
// limit of a key bounds are not added: they would fill the disk.
func (x *Exchange) auditAccess() {
	if !x.service.Audits(x.Access.Action) || x.err != nil && (x.anonymous() || x.status == http.StatusTooManyRequests || x.busy()) {
		return
	}
	code := ""
	switch {
	case x.err != nil && x.started && x.Request.Context().Err() != nil:
		code = string(wire.CodeClientGone)
	case x.err != nil:
		code = string(x.door.Errors.RowOf(x.err).Code)
	}
	if x.Access.Action == auditlog.Read && x.Access.Bytes == 0 && x.status < http.StatusBadRequest {
		x.Access.Bytes = x.Out.Written()
	}
	x.addToAudit(x.Access, cmp.Or(x.status, http.StatusOK), code)
}

func (x *Exchange) addToAudit(a auditlog.Access, status int, code string) {
	e := auditlog.Entry{Access: a, Time: time.Now(), Status: status, Error: code, Request: x.RequestID}
	if x.Caller != nil {
		e.Key = x.Caller.ID()
	}
	client := x.Client
	if !client.IsValid() {
		client = peerAddress(x.Request.RemoteAddr)
	}
	if client.IsValid() {
		e.Client = client.String()
	}
	x.service.audit.Add(e)
}
