package s3api

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"sluice/blob"
	"sluice/exchange"
	"sluice/internal/auditlog"
)

// ServeHTTP serves one request and logs one line about it. An error or a panic becomes an error
// response or, after a response's first byte, closes the connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &call{unsigned: s.unsigned}
	s.Begin(&x.Exchange, &s.door, w, r)
	defer x.End()
	if err := s.serve(x); err != nil {
		x.Fail(err)
	}
}

// serve makes every refusal that the request's head allows before it admits the caller: credentials
// come after syntax, and stored data come last.
func (s *Server) serve(x *call) error {
	x.Fields.Set("X-Amz-Request-Id", x.RequestID)
	foreign := x.Open()
	if foreign != nil && !errors.Is(foreign, exchange.ErrForeignOrigin) {
		return foreign
	}
	if x.Request.ContentLength == 0 && x.Request.Header.Get("Expect") != "" {
		// Botocore takes a response without 100 Continue for the last one on its connection, and
		// would wait for the next one forever.
		x.Fields.Set("Connection", "close")
	}
	malformed := s.parse(x)
	defer x.Leave()
	if x.Request.Method == http.MethodOptions {
		if err := x.AdmitProbe(); err != nil {
			return err
		}
		return s.respondOptions(x, foreign)
	}
	if err := s.admit(x); err != nil {
		return err
	}
	if malformed != nil {
		return cmp.Or(foreign, malformed)
	}
	if err := s.findAccount(x); err != nil {
		return err
	}
	if err := s.admitPage(x, foreign); err != nil {
		return err
	}
	if s.Audits(x.op.audits) {
		x.Access = auditlog.Access{Action: x.op.audits, Account: x.account, Name: x.key, Version: x.version.String()}
	}
	if err := s.permit(x); err != nil {
		return err
	}
	if err := checkOwner(x.header, "X-Amz-Expected-Bucket-Owner", x.account); err != nil {
		return err
	}
	if x.op.writes {
		if err := x.AwaitPermission(); err != nil {
			return err
		}
	}
	if err := x.DiscardBody(); err != nil {
		return err
	}
	if x.op.bucket {
		if err := s.needBucket(x.Request.Context(), x.account); err != nil {
			return err
		}
	}
	if s.encrypted && slices.Contains(encryptedReplies, x.op.name) {
		x.Fields.Set(fieldEncryption, encryption)
	}
	if err := s.loadRules(x); err != nil {
		return err
	}
	return s.missing(x.Request.Context(), x.account, x.op.handle(s, x))
}

// parse finds the request's target and operation. Without an operation, the target's pattern is for
// the log alone.
func (s *Server) parse(x *call) (err error) {
	if x.target, err = parseTarget(x.Request, s.hosts); err != nil {
		return err
	}
	x.Pattern = x.pattern()
	if x.query, err = parseQuery(x.Request); err != nil {
		return err
	}
	if x.header, err = fieldsOf(x.Request.Header, x.query); err != nil {
		return err
	}
	if err := s.checkEncryption(x.header); err != nil {
		return err
	}
	if x.op, err = findOperation(x); err != nil {
		return err
	}
	x.Pattern = x.op.pattern(x.target)
	if err = checkFieldsOf(x.header, x.op); err != nil || x.level != objectLevel {
		return err
	}
	return checkKey(x.key)
}

// findAccount sets the bucket's account.
func (s *Server) findAccount(x *call) (err error) {
	if x.level == serviceLevel {
		return nil
	}
	x.account, err = s.accountOf(x.bucket)
	return err
}

// accountOf returns a bucket's account: the one that it is an alias for, or the one that it names.
func (s *Server) accountOf(bucket string) (string, error) {
	if s.aliases != nil {
		if account := s.aliases.Account(bucket); account != "" {
			return account, nil
		}
	}
	return blob.ParseAccount(bucket)
}
