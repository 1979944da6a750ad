package chain

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/micropay"
	"sluice/test/testenv"
)

// node answers with fn, and with chain 4's headers at chainTime.
func node(t *testing.T, fn http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w.Header())
		fn(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

var chainTime = time.UnixMicro(1760000000123456).UTC()

func setHeaders(h http.Header) {
	h.Set(headerChainID, "4")
	h.Set(headerTime, strconv.FormatInt(chainTime.UnixMicro(), 10))
}

// answers returns a handler that always sends this answer.
func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func newClient(t *testing.T, opt Options) *Client {
	t.Helper()
	if opt.ChainID == 0 {
		opt.ChainID = 4
	}
	c := testenv.Must(New(opt))(t)
	return c
}

// recorded are the public client's requests, and the answer that it understood.
type recorded struct {
	View struct {
		ContentType string `json:"content_type"`
		Body        string `json:"body_hex"`
		Sender      string
		Receiver    string
	}
	Vectors []struct {
		Micropayment string `json:"micropayment_base64"`
		ReceiverKey  string `json:"receiver_private_key"`
		ContentType  string `json:"content_type"`
		Submitted    string `json:"submitted_hex"`
		Hash         string `json:"transaction_hash"`
	}
}

func readRecorded(t testing.TB) (r recorded) {
	t.Helper()
	text, err := os.ReadFile("../micropay/testdata/settlements.json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	testenv.OK(t, err)
	return r
}

func parseAddress(t testing.TB, text string) micropay.Address {
	t.Helper()
	a := testenv.Must(micropay.ParseAddress(text))(t)
	return a
}

// completed returns the first recorded transaction.
func completed(t testing.TB) *micropay.Transaction {
	t.Helper()
	v := readRecorded(t).Vectors[0]
	body := testenv.Must(hex.DecodeString(v.Submitted))(t)
	var hash micropay.Hash
	testenv.OK(t, testenv.Error(hex.Decode(hash[:], []byte(v.Hash[2:]))))
	return &micropay.Transaction{Body: body, Hash: hash}
}

func TestSubmitSendsWhatThePublicClientSends(t *testing.T) {
	of := completed(t)
	var got string
	c := newClient(t, Options{APIKey: "key", Nodes: []string{node(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		got = fmt.Sprintf("%s %s %s %s %x %v", r.Method, r.URL.Path, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), body, err)
		answers(http.StatusAccepted, `{"hash":"`+of.Hash.String()+`"}`)(w, r)
	})}})
	testenv.OK(t, c.Submit(t.Context(), of))
	v := readRecorded(t).Vectors[0]
	if want := fmt.Sprintf("POST /v1/transactions %s Bearer key %s <nil>", v.ContentType, v.Submitted); got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
}

func TestChannelsSendsWhatThePublicClientSends(t *testing.T) {
	view := readRecorded(t).View
	const asset = "0x1b18363a9f1fe5e6ebf247daba5cc1c18052bb232efdc4c50f556053922d98e1"
	var got string
	c := newClient(t, Options{
		Module: parseAddress(t, "0xb42ac038b6dae86f6171e28e297aab9555ce09909445ec579e4ffe6b8d4d63bf"),
		Nodes: []string{node(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			got = fmt.Sprintf("%s %s %s %x %v", r.Method, r.URL.Path, r.Header.Get("Content-Type"), body, err)
			answers(http.StatusOK, `[[{"asset_metadata":{"inner":"`+asset+`"},"balance":"1000","creation_micros":"1760000000000000",
				"expiration_micros":"1770000000000000","next_withdrawn_sequence_number":"3","payment_channel_id":"7","receiver_withdrawn_amount":"250"}]]`)(w, r)
		})},
	})
	name := ChannelName{Asset: parseAddress(t, asset), PaymentChannelID: 7}
	channels := testenv.Must(c.Channels(t.Context(), parseAddress(t, view.Sender), parseAddress(t, view.Receiver), name))(t)
	if want := fmt.Sprintf("POST /v1/view %s %s <nil>", view.ContentType, view.Body); got != want {
		t.Errorf("sent %s\nwant %s", got, want)
	}
	want := Channel{
		ChannelName: name, Balance: 1000, Withdrawn: 250, NextSequence: 3,
		Created: time.Unix(1760000000, 0).UTC(), Expires: time.Unix(1770000000, 0).UTC(),
	}
	if len(channels.ByName) != 1 || channels.ByName[name] != want || !channels.At.Equal(chainTime) {
		t.Errorf("got %+v\nwant %+v at %v", channels, want, chainTime)
	}
}

func TestRefusalsAreErrors(t *testing.T) {
	var requests atomic.Int64
	c := newClient(t, Options{Nodes: []string{node(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		answers(400, `{"message":"Invalid transaction: \u001b[2J INSUFFICIENT_BALANCE_FOR_TRANSACTION_FEE","error_code":"vm_error","vm_error_code":5}`)(w, r)
	})}})
	err := c.Submit(t.Context(), completed(t))
	refusal, ok := errors.AsType[*Error](err)
	if !ok || refusal.Status != 400 || refusal.Code != "vm_error" || refusal.VMCode != 5 || errors.Is(err, ErrUnavailable) {
		t.Fatalf("%#v", err)
	}
	if strings.Contains(err.Error(), "\x1b") || requests.Load() != 1 {
		t.Errorf("%q after %d requests", err, requests.Load())
	}
}

// TestFailingNodes asks a node that fails in each way, and then one that answers.
func TestFailingNodes(t *testing.T) {
	hash := completed(t).Hash
	good := `{"type":"pending_transaction","hash":"` + hash.String() + `"}`
	var elsewhere atomic.Int64
	other := node(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	for name, fail := range map[string]http.HandlerFunc{
		"overloaded":          answers(429, `{"message":"slow down","error_code":"web_framework_error"}`),
		"request timeout":     answers(408, ""),
		"full mempool":        answers(507, `{"message":"full","error_code":"mempool_is_full"}`),
		"proxy":               answers(502, "<html>"),
		"not the API":         answers(404, "<html>"),
		"missing key":         answers(401, `{"error":"unauthorized"}`),
		"no access":           answers(403, `{"message":"the quota is used up","error_code":"web_framework_error"}`),
		"garbage":             answers(200, `{"type":`),
		"another type":        answers(200, `[]`),
		"another transaction": answers(200, `{"type":"pending_transaction","hash":"0x00"}`),
		"unknown type":        answers(200, `{"type":"state_checkpoint_transaction","hash":"`+hash.String()+`"}`),
		"no success":          answers(200, `{"type":"user_transaction","hash":"`+hash.String()+`"}`),
		"empty":               answers(200, ""),
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other, http.StatusTemporaryRedirect)
		},
		"too long": answers(200, strings.Repeat(" ", maxResponse)+good),
		"other chain": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(headerChainID, "5")
			answers(200, good)(w, r)
		},
		"no ledger time": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del(headerTime)
			answers(404, `{"message":"","error_code":"transaction_not_found"}`)(w, r)
		},
		"cut": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(good)+1))
			answers(200, good)(w, r)
		},
		"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			var failed, answered atomic.Int64
			failing := node(t, func(w http.ResponseWriter, r *http.Request) { failed.Add(1); fail(w, r) })
			answering := node(t, func(w http.ResponseWriter, r *http.Request) { answered.Add(1); answers(200, good)(w, r) })
			c := newClient(t, Options{APIKey: "secret", Nodes: []string{failing, answering}})
			testenv.Equal(t, testenv.Must(c.Transaction(t.Context(), hash))(t).State, StatePending, "the state")
			if failed.Load() < 1 || answered.Load() != 1 {
				t.Errorf("%d requests to the failing node, %d to the other", failed.Load(), answered.Load())
			}
			_, err := newClient(t, Options{APIKey: "secret", Nodes: []string{failing}, Rounds: 1}).Transaction(t.Context(), hash)
			if !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "secret") || errors.Is(err, ErrWrongChain) != (name == "other chain") {
				t.Errorf("error %v", err)
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
}

// transport answers without a network, so that the pauses follow a synctest bubble's clock.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(status int, retryAfter, body string) *http.Response {
	h := http.Header{}
	setHeaders(h)
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func TestPausesBetweenRounds(t *testing.T) {
	hash := completed(t).Hash
	for _, test := range []struct {
		name       string
		retryAfter string
		least      time.Duration // all pauses together
		most       time.Duration
	}{
		{"random", "", 0, firstPause + 2*firstPause},
		{"as the node asks", "7", 14 * time.Second, 14 * time.Second},
		{"bounded", "86400", 2 * longestPause, 2 * longestPause},
		{"as a date", "Sat, 01 Jan 2000 00:00:05 GMT", 5 * time.Second, 5*time.Second + 2*firstPause},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var times []time.Time
				c := newClient(t, Options{Nodes: []string{"https://one.example/v1", "https://two.example/v1"}, Transport: transport(func(*http.Request) (*http.Response, error) {
					times = append(times, time.Now())
					return response(503, test.retryAfter, ""), nil
				})})
				begin := time.Now()
				_, err := c.Transaction(t.Context(), hash)
				if !errors.Is(err, ErrUnavailable) || len(times) != 2*DefaultRounds {
					t.Fatalf("%v after %d requests", err, len(times))
				}
				for i := 0; i < len(times); i += 2 {
					if !times[i].Equal(times[i+1]) {
						t.Error("there is a pause within a round")
					}
				}
				if took := time.Since(begin); took < test.least || took > test.most+2*time.Nanosecond {
					t.Errorf("the pauses were %v, want %v to %v", took, test.least, test.most)
				}
			})
		})
	}
}

// TestContextEndsACall shows that a call does not begin a pause that its context does not outlast,
// and ends with it.
func TestContextEndsACall(t *testing.T) {
	hash := completed(t).Hash
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Nodes: []string{"https://one.example"}, Transport: transport(func(*http.Request) (*http.Response, error) {
			return response(503, "20", ""), nil
		})})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := c.Transaction(ctx, hash); !errors.Is(err, ErrUnavailable) || time.Since(begin) != 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, Options{Nodes: []string{"https://one.example"}, Transport: transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		begin := time.Now()
		if _, err := c.Transaction(ctx, hash); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) || time.Since(begin) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, text := range []string{"", "node.example/v1", "http://node.example/v1", "ftp://node.example", "https://", "https://user:secret@node.example",
		"https://node.example/v1?key=secret", "https://node.example/v1#secret", "https://node.example:port", "http://127.0.0.1.example"} {
		if _, err := New(Options{Nodes: []string{text}}); !errors.Is(err, ErrOptions) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	testenv.Is(t, testenv.Error(New(Options{})), ErrOptions, "no node")
	for _, text := range []string{"https://node.example/v1", "https://node.example/v1/", "http://localhost:8080/v1", "http://127.0.0.1:8080", "http://[::1]:8080/v1"} {
		if _, err := New(Options{Nodes: []string{text}}); err != nil {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestAccountSequence(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   uint64
		err    error
	}{
		"known":       {200, `{"sequence_number":"18446744073709551615","authentication_key":"0x01"}`, 1<<64 - 1, nil},
		"unknown":     {404, `{"message":"Account not found","error_code":"account_not_found","vm_error_code":null}`, 0, nil},
		"refused":     {400, `{"message":"m","error_code":"invalid_input","vm_error_code":null}`, 0, &Error{Status: 400, Code: "invalid_input", Message: "m"}},
		"other 404":   {404, `{"message":"m","error_code":"web_framework_error","vm_error_code":null}`, 0, &Error{Status: 404, Code: "web_framework_error", Message: "m"}},
		"no number":   {200, `{}`, 0, ErrUnavailable},
		"JSON number": {200, `{"sequence_number":3}`, 0, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, Options{Rounds: 1, Nodes: []string{node(t, func(w http.ResponseWriter, r *http.Request) {
				if want := "GET /v1/accounts/0x" + strings.Repeat("0", 62) + "0a"; r.Method+" "+r.URL.Path != want {
					t.Errorf("%s %s, want %s", r.Method, r.URL.Path, want)
				}
				answers(test.status, test.body)(w, r)
			})}})
			got, err := c.AccountSequence(t.Context(), micropay.Address{31: 10})
			if got != test.want || !sameError(err, test.err) {
				t.Errorf("%d, %v, want %d, %v", got, err, test.want, test.err)
			}
		})
	}
}

// sameError reports whether err is want, or an equal *Error.
func sameError(err, want error) bool {
	refusal, _ := errors.AsType[*Error](err)
	if wanted, ok := errors.AsType[*Error](want); ok {
		return refusal != nil && *refusal == *wanted
	}
	return errors.Is(err, want)
}

func TestSimulate(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		body   string
		want   Simulation
		err    error
	}{
		"succeeds":     {200, `[{"success":true,"vm_status":"Executed successfully","gas_used":"12","type":"user_transaction"}]`, Simulation{Success: true, VMStatus: "Executed successfully", GasUsed: 12}, nil},
		"fails":        {200, `[{"success":false,"vm_status":"INVALID_AUTH_KEY","gas_used":"0"}]`, Simulation{VMStatus: "INVALID_AUTH_KEY"}, nil},
		"long status":  {200, `[{"success":false,"vm_status":"` + strings.Repeat("a", 400) + `","gas_used":"0"}]`, Simulation{VMStatus: strings.Repeat("a", 300)}, nil},
		"refused":      {400, `{"message":"m","error_code":"invalid_input","vm_error_code":null}`, Simulation{}, &Error{Status: 400, Code: "invalid_input", Message: "m"}},
		"none":         {200, `[]`, Simulation{}, ErrUnavailable},
		"null":         {200, `null`, Simulation{}, ErrUnavailable},
		"two":          {200, `[{"success":true,"vm_status":"","gas_used":"12"},{"success":true,"vm_status":"","gas_used":"12"}]`, Simulation{}, ErrUnavailable},
		"no success":   {200, `[{"vm_status":"","gas_used":"12"}]`, Simulation{}, ErrUnavailable},
		"no gas":       {200, `[{"success":true,"vm_status":""}]`, Simulation{}, ErrUnavailable},
		"accepted":     {202, `[{"success":true,"vm_status":"","gas_used":"12"}]`, Simulation{}, ErrUnavailable},
		"not the list": {200, `{"success":true,"vm_status":"","gas_used":"12"}`, Simulation{}, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, Options{Rounds: 1, Nodes: []string{node(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				got := fmt.Sprintf("%s %s %s %s %v", r.Method, r.URL.Path, r.Header.Get("Content-Type"), body, err)
				if want := "POST /v1/transactions/simulate application/x.aptos.signed_transaction+bcs body <nil>"; got != want {
					t.Errorf("sent %s\nwant %s", got, want)
				}
				answers(test.status, test.body)(w, r)
			})}})
			if test.err == nil {
				test.want.At = chainTime
			}
			if got, err := c.Simulate(t.Context(), []byte("body")); got != test.want || !sameError(err, test.err) {
				t.Errorf("%+v, %v\nwant %+v, %v", got, err, test.want, test.err)
			}
		})
	}
}

// FuzzAnswers decodes any body of any status as each answer: nothing panics, and only a status of
// 200 has a result, or 404 for an account that does not exist.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`[[{"asset_metadata":{"inner":"0x1"},"balance":"1","creation_micros":"1","expiration_micros":"18446744073709551615","next_withdrawn_sequence_number":"3","payment_channel_id":"7","receiver_withdrawn_amount":"2"}]]`, `[[]]`, `[null]`,
		`[{"success":true,"vm_status":"Executed successfully","gas_used":"12"}]`, `{"sequence_number":"7"}`,
		`{"deprioritized_gas_estimate":90,"gas_estimate":100,"prioritized_gas_estimate":150}`,
		`{"message":"m","error_code":"account_not_found","vm_error_code":null}`, `{"chain_id":4,"ledger_version":"77","ledger_timestamp":"1"}`,
	} {
		f.Add(200, body)
		f.Add(404, body)
	}
	f.Add(400, `{"message":"m","error_code":"vm_error","vm_error_code":1}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		received := func() *answer {
			return &answer{status, chainTime, &io.LimitedReader{R: strings.NewReader(body), N: maxResponse + 1}}
		}
		list, failed := decodeChannels(received(), []ChannelName{{Asset: micropay.Address{31: 1}, PaymentChannelID: 7}})
		if failed == nil && status != http.StatusOK {
			t.Errorf("status %d: %v", status, list)
		}
		for _, c := range list {
			if _, err := c.Expires.MarshalJSON(); err != nil || c.Expires.Before(time.Unix(0, 0)) {
				t.Errorf("the channel expires at %v: %v", c.Expires, err)
			}
		}
		s, failed := decodeSimulation(received())
		if failed == nil && (status != http.StatusOK || !s.At.Equal(chainTime) || len(s.VMStatus) > maxMessage) {
			t.Errorf("status %d: simulated %+v", status, s)
		}
		p, failed := decodeGasPrices(received())
		if failed == nil && (status != http.StatusOK || p.Lowest == 0 || p.Lowest > p.Usual || p.Usual > p.Highest) {
			t.Errorf("status %d: prices %+v", status, p)
		}
		n, failed := decodeAccountSequence(received())
		if failed == nil && status != http.StatusOK && (status != http.StatusNotFound || n != 0) {
			t.Errorf("status %d: sequence number %d", status, n)
		}
	})
}
