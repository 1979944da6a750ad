package httpapi

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/database/whole"
	"sluice/ledger"
	"sluice/test/testenv"
	"sluice/wire"
)

// decode sends a GET and decodes the response.
func decode[T any](t *testing.T, s *service, target string, h ...string) T {
	t.Helper()
	_, body := s.want(t, 200, "GET", target, "", h...)
	return decodedAs[T](t, body)
}

// addMoney stores two sessions and two channels, and over one channel a session was bought and
// chunksets were read.
func addMoney(t *testing.T, meta whole.Database) {
	t.Helper()
	var errs []error
	for i, id := range []string{"first", "second"} {
		_, err := meta.CreateSession(t.Context(), ledger.Session{ID: id, Total: 10, Left: 10, Expires: time.Now().Add(time.Duration(i+1) * time.Hour)}, nil)
		errs = append(errs, err)
		_, err = meta.OpenChannel(t.Context(), ledger.Channel{ID: "channel" + id, PaymentChannelID: int64(i), Sender: "0xa", Receiver: "0x1", Asset: "0x2", Deposit: 100, Expires: time.Now().Add(time.Hour)}, nil)
		errs = append(errs, err)
	}
	pay := ledger.Offer{Payment: ledger.Payment{Sender: "0xa", Receiver: "0x1", Asset: "0x2", PaymentChannelID: 0, Sequence: 1, Amount: 9, Proof: []byte("proof"), Expires: time.Now().Add(time.Minute)}, Policy: ledger.Policy{UnsettledLimit: 100}}
	_, err := meta.Buy(t.Context(), ledger.Purchase{Offer: pay, Price: 3, Session: ledger.Session{ID: "bought", Expires: time.Now().Add(3 * time.Hour)}}, nil)
	errs = append(errs, err, meta.Book(t.Context(), []ledger.Settlement{{Channel: "channelfirst", Sequence: 1, Amount: 9, Proof: pay.Proof, Expires: pay.Expires}}))
	pay.Sequence, pay.Amount = 2, 12
	_, err = meta.PayRead(t.Context(), ledger.ReadPurchase{Offer: pay, Price: 3, Count: 1})
	testenv.OK(t, errors.Join(append(errs, err)...))
}

// TestLocalLists checks the pages of a local instance's lists, and a channel's ledger.
// Invariant 54.
func TestLocalLists(t *testing.T) {
	s := newService(t, nil)
	addMoney(t, s.meta)
	var sessions, channels []string
	for after, more := "", true; more; more = after != "" {
		page := decode[wire.SessionPage](t, s, "/v1/local/sessions?limit=1&after="+after)
		for _, one := range page.Sessions {
			sessions = append(sessions, one.SessionID)
		}
		after = page.Next
	}
	for after, more := "", true; more; more = after != "" {
		page := decode[wire.ChannelPage](t, s, "/v1/channels?limit=1&after="+after)
		for _, one := range page.Channels {
			channels = append(channels, one.ChannelID+" "+one.Accepted+" "+one.State)
		}
		after = page.Next
	}
	if want := []string{"bought", "second", "first"}; !slices.Equal(sessions, want) {
		t.Errorf("sessions %v, want %v", sessions, want)
	}
	if want := []string{"channelfirst 12 open", "channelsecond 0 open"}; !slices.Equal(channels, want) {
		t.Errorf("channels %v, want %v", channels, want)
	}

	if page := decode[wire.ChannelPage](t, s, "/v1/channels?limit=1&after=channels"); len(page.Channels) != 1 || page.Channels[0].ChannelID != "channelsecond" {
		t.Errorf("the channel with an id that begins with channels: %+v", page)
	}

	ledger := decode[wire.Ledger](t, s, "/v1/channels/channelfirst/ledger?limit=1")
	if len(ledger.Sales) != 1 || ledger.Sales[0].SequenceNumber != "2" || ledger.Sales[0].Chunksets != 1 || ledger.Next == "" || ledger.Channel.Credit != "0" {
		t.Errorf("the first page of the ledger is %+v", ledger)
	}
	var states []string
	for _, one := range ledger.Settlements {
		states = append(states, fmt.Sprint(one.State, " ", one.SequenceNumber, " ", one.Amount))
	}
	if want := []string{"pending 2 12", "settled 1 9"}; !slices.Equal(states, want) {
		t.Errorf("settlements %v, want %v", states, want)
	}
	rest := decode[wire.Ledger](t, s, "/v1/channels/channelfirst/ledger?after="+ledger.Next)
	if len(rest.Sales) != 1 || rest.Sales[0].SessionID != "bought" || rest.Sales[0].Price != "3" || rest.Next != "" {
		t.Errorf("the second page of the ledger is %+v", rest)
	}
	s.refused(t, 404, wire.CodeChannelNotFound, "GET", "/v1/channels/none/ledger", "")
	s.refused(t, 404, wire.CodeSessionNotFound, "GET", "/v1/local/sessions?after=none", "")
	s.refused(t, 400, wire.CodeBadParameter, "GET", "/v1/local/sessions?limit=0", "")

	figures := decode[wire.Figures](t, s, "/v1/figures")
	if figures.Sessions != (wire.SessionFigures{Live: 3}) || figures.Channels != (wire.ChannelFigures{Open: 2}) {
		t.Errorf("figures %+v", figures)
	}
}
