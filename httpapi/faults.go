package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"sluice/access"
	"sluice/bytestore"
	"sluice/exchange"
	"sluice/httpapi/internal/faults"
	"sluice/internal/task"
	"sluice/metering"
	"sluice/wire"
)

// faultOperations are the operations to which faults can happen, as rules name them, by the
// patterns of their routes. Probes, the document, the console and the faults' own routes have none.
var faultOperations = map[string]string{
	"/v1/sessions":                                            faults.Session,
	"/v1/sessions/{sessionId}":                                faults.Session,
	"/v1/sessions/{sessionId}/use":                            faults.Use,
	"/v1/sessions/micropaymentchannels":                       faults.Channel,
	"/v1/sessions/micropaymentchannels/{channelId}":           faults.Channel,
	"/v1/sessions/micropaymentchannels/{channelId}/deposit":   faults.Channel,
	"/v1/sessions/micropaymentchannels/{channelId}/close":     faults.Channel,
	"/v1/sessions/micropaymentchannels/{channelId}/renew":     faults.Channel,
	"/v1/sessions/micropaymentchannels/{channelId}/reconcile": faults.Channel,
	"/v1/channels":                                     faults.Channel,
	"/v1/channels/{channelId}/ledger":                  faults.Channel,
	"/v1/accounts":                                     faults.Accounts,
	"/v1/changes":                                      faults.Changes,
	"/v1/blobs/{account}":                              faults.List,
	"/v1/blobs/{account}/{blobName...}":                faults.Blob,
	"/v1/versions/{account}":                           faults.List,
	"/v1/versions/{account}/{version}/{blobName...}":   faults.Blob,
	"/v1/multipart-uploads":                            faults.Upload,
	"/v1/multipart-uploads/{uploadId}":                 faults.Upload,
	"/v1/multipart-uploads/{uploadId}/parts/{partIdx}": faults.Part,
	"/v1/multipart-uploads/{uploadId}/complete":        faults.Complete,
	"/v1/info":    faults.Info,
	"/v1/figures": faults.Info,
}

// CheckFault returns an error if rule is not a valid element of Config.Faults.
func CheckFault(rule string) error {
	_, err := faults.Parse(rule)
	return err
}

// faultSeed is the seed of the random choices of faults until a client sets another one.
const faultSeed = 1

// newFaults returns a local instance's faults.
func newFaults(texts []string) (*faults.Set, error) {
	rules, err := parseFaults(texts)
	if err != nil {
		return nil, err
	}
	return faults.NewSet(faultSeed, rules), nil
}

func parseFaults(texts []string) (rules []faults.Rule, err error) {
	if len(texts) > faults.MaxRules {
		return nil, fmt.Errorf("there can be at most %d rules of faults", faults.MaxRules)
	}
	for _, text := range texts {
		r, err := faults.Parse(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// inject makes a request's fault happen, if it has one: it waits, returns an error that ends the
// exchange before it has had an effect, or changes how the response will be sent.
func (s *Server) inject(x *call, operation string) error {
	own := x.Request.Header[wire.HeaderFault]
	if s.faults == nil || operation == "" || len(own) == 0 && !s.faults.Active() {
		return nil
	}
	paying := x.place.Reads == access.ReadsPaid && x.Request.Header.Get(wire.HeaderSessionID) != ""
	f, err := s.faults.Pick(faults.Request{Method: x.Request.Method, Operation: operation, Session: paying}, own)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", exchange.ErrHeader, wire.HeaderFault, err)
	}
	switch f.Kind {
	case "":
		return nil
	case faults.Delay:
		return s.delay(x, f)
	case faults.Status:
		return &requestedFault{f, nil}
	case faults.FullDisk:
		return &requestedFault{f, bytestore.ErrNoSpace}
	case faults.ExpiredSession:
		if operation == faults.Blob {
			return &requestedFault{f, metering.ErrSessionExpired}
		}
		return &requestedFault{f, errSessionExpired}
	default:
		var injected *faults.Writer
		x.Out.Wrap(func(w http.ResponseWriter) http.ResponseWriter {
			injected = faults.NewWriter(x.Request.Context(), w, f)
			return injected
		})
		x.BreakIf(func() error {
			if !injected.Broken() {
				return nil
			}
			return &requestedFault{injected.Fault(), nil}
		})
		return nil
	}
}

// delay waits, but not longer than the service accepts request bodies.
func (s *Server) delay(x *call, f faults.Fault) error {
	ctx, cancel := context.WithCancel(x.Request.Context())
	defer cancel()
	defer context.AfterFunc(s.CutContext(), cancel)()
	err := task.Wait(ctx, f.Delay)
	if s.CutContext().Err() != nil {
		return exchange.ErrDraining
	}
	return err
}

func (s *Server) getFaults(x *call) error { return writeJSON(x, http.StatusOK, s.faultsJSON()) }

// putFaults replaces all rules.
func (s *Server) putFaults(x *call) error {
	var in struct {
		Seed   *uint32          `json:"seed"`
		Faults []wire.FaultRule `json:"faults"`
	}
	if _, err := readJSON(x.Request, &in); err != nil {
		return err
	}
	if in.Faults == nil {
		return missingMember("faults")
	}
	var texts []string
	for _, one := range in.Faults {
		texts = append(texts, one.Rule)
	}
	rules, err := parseFaults(texts)
	if err != nil {
		return fmt.Errorf("%w: %w", exchange.ErrParameter, err)
	}
	seed, _ := s.faults.List()
	if in.Seed != nil {
		seed = *in.Seed
	}
	s.faults.Replace(seed, rules)
	return writeJSON(x, http.StatusOK, s.faultsJSON())
}

func (s *Server) deleteFaults(x *call) error {
	seed, _ := s.faults.List()
	s.faults.Replace(seed, nil)
	x.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) faultsJSON() wire.Faults {
	seed, counts := s.faults.List()
	out := wire.Faults{Seed: seed, Faults: []wire.FaultRule{}}
	for _, c := range counts {
		out.Faults = append(out.Faults, wire.FaultRule{Rule: c.Rule.String(), Requests: c.Requests, Injected: c.Injected})
	}
	return out
}
