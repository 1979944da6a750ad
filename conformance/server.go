package conformance

import (
	"net/http"
	"sync"

	"sluice/micropay"
	"sluice/wire"
)

// server is the server under test, and the run's knowledge of it.
type server struct {
	client  *http.Client
	base    string // the base URL, without a slash at its end
	key     string
	account string
	prefix  string // begins every name that the run creates

	info      wire.Info
	published bool // the server has /v1/info
	freeReads bool // blobs are read without payment, with the key if there is one
	payer     *micropay.Signer

	mu   sync.Mutex
	left []string // blobs and uploads that cases could not remove
}

// need is a fact about the server without which a case is skipped.
type need struct {
	label string
	holds func(*server) bool
}

// The needs of cases. Of a server without /v1/info it is assumed that it is as open as can be.
var (
	// grantedSessions: a session is created without a payment.
	grantedSessions = need{"sessions that are granted without payment", func(s *server) bool {
		return !s.published || s.info.Profile == "local" && s.info.Reads != "paid"
	}}
	// soldSessions: a session must be bought.
	soldSessions = need{"sessions that must be paid for", func(s *server) bool {
		return s.published && (s.info.Profile != "local" || s.info.Reads == "paid")
	}}
	// publicReads: whoever has no key reads, without payment.
	publicReads = need{"public reads", func(s *server) bool { return !s.published || s.info.Reads == "public" }}
	// paidReads: whoever has no key pays for reads.
	paidReads = need{"paid reads", func(s *server) bool { return s.info.Reads == "paid" }}
	// localInstance: everyone may do everything, from this machine.
	localInstance = need{"a local instance", func(s *server) bool { return s.info.Profile == "local" }}
	// hostedNetwork: callers have the rights of their keys.
	hostedNetwork = need{"a hosted network", func(s *server) bool { return s.published && s.info.Profile != "local" }}
	// booksInLedger: payments are booked in the ledger, and a request states the deposit.
	booksInLedger = need{"payments that are booked in the ledger and not on a chain", func(s *server) bool {
		return s.published && s.info.Payment.Settlement == wire.SettlementLedger
	}}
	// addressAccount: the run's account is an address.
	addressAccount = need{"an address as --account", func(s *server) bool {
		return len(s.account) == 66 && s.account[:2] == "0x"
	}}
)

// leave records a blob or an upload that could not be removed.
func (s *server) leave(label string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = append(s.left, label)
}
