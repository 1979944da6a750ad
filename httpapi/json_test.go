package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"sluice/exchange"
	"sluice/exchange/transfer"
	"sluice/wire"
)

// sample has a member of every type that the operations use.
type sample struct {
	Text   *string    `json:"text"`
	Plain  string     `json:"plain"`
	Count  *int64     `json:"count"`
	Index  uint32     `json:"index"`
	Flag   bool       `json:"flag"`
	Amount *amount    `json:"amount"`
	Time   *time.Time `json:"time"`
	List   []string   `json:"list"`
	Inner  struct {
		Deep string `json:"deep"`
	} `json:"inner"`
}

func TestDecodeJSON(t *testing.T) {
	text, count, money := "a\U0001F600é", int64(5242880), amount(7)
	for body, want := range map[string]sample{
		``:            {},
		" \r\n\t":     {},
		`{}`:          {},
		"\n {\t} \r ": {},
		`{"text":"a\ud83d\ude00\u00e9","count":5242880,"amount":"7"}`: {Text: &text, Count: &count, Amount: &money},
		`{"unknown":{"a":[1,{"b":null}],"text":1},"plain":"x"}`:       {Plain: "x"},
		// Other names.
		`{"Text":"x","TEXT":1,"PLAIN":[]}`: {},
		`{"text":null,"count":null,"amount":null,"plain":null,"index":null,"flag":null,"list":null,"time":null,"inner":null}`: {},
	} {
		var got sample
		if err := decodeJSON([]byte(body), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}

func TestDecodeJSONRefuses(t *testing.T) {
	deep := strings.Repeat(`{"inner":`, 9990)
	for _, tc := range []struct{ body, says string }{
		{`{"text":"\ud800x"}`, "not valid JSON"},
		{`{"text":"\ud800"}`, "not valid JSON"},
		{`{"text":"\udc00\ud800"}`, "not valid JSON"},
		{`{"unknown":"\ud800\u0041"}`, "not valid JSON"},
		{`{"\ud800":1}`, "not valid JSON"},
		{"{\"text\":\"a\xff\"}", "not valid JSON"},
		{"{\"text\":\"\xed\xa0\x80\"}", "not valid JSON"},
		{"{\"unknown\":\"\xc0\xaf\"}", "not valid JSON"},
		{"\xef\xbb\xbf{}", "JSON object"},
		{`{"text":"a","text":"a"}`, `"text" occurs twice`},
		{`{"unknown":1,"unknown":2}`, `"unknown" occurs twice`},
		{`{"te\u0078t":"a","text":"b"}`, `"text" occurs twice`},
		{`{"x":{"a":1,"a":2}}`, `"x.a" occurs twice`},
		{`{"` + strings.Repeat("é", 1000) + `":1,"` + strings.Repeat("é", 1000) + `":2}`, "occurs twice"},
		{`{} {}`, "not valid JSON"},
		{`{}x`, "not valid JSON"},
		{`{}` + "\x00", "not valid JSON"},
		{`{"text":"a"`, "not valid JSON"},
		{`{"text":"a",}`, "not valid JSON"},
		{`{text:"a"}`, "not valid JSON"},
		{`{'text':"a"}`, "not valid JSON"},
		{`{"text":"a` + "\n" + `"}`, "not valid JSON"},
		{`{"count":01}`, "not valid JSON"},
		{`{"count":NaN}`, "not valid JSON"},
		{`{/**/}`, "not valid JSON"},
		{`[]`, "JSON object"},
		{`null`, "JSON object"},
		{`"x"`, "JSON object"},
		{`0`, "JSON object"},
		{`x`, "JSON object"},
		{`{"text":1}`, `"text" must be a string`},
		{`{"text":["a"]}`, `"text" must be a string`},
		{`{"plain":true}`, `"plain" must be a string`},
		{`{"count":"5"}`, `"count" must be an integer`},
		{`{"count":1.5}`, `"count" must be an integer`},
		{`{"count":1.0}`, `"count" must be an integer`},
		{`{"count":1e3}`, `"count" must be an integer`},
		{`{"count":9223372036854775808}`, `"count" must be an integer`},
		{`{"count":{}}`, `"count" must be an integer`},
		{`{"index":-1}`, `"index" must be an integer that is not negative`},
		{`{"flag":1}`, `"flag" must be true or false`},
		{`{"flag":"true"}`, `"flag" must be true or false`},
		{`{"time":"tomorrow"}`, `"time" must be a time`},
		{`{"time":5}`, `"time" must be a time`},
		{`{"list":"a"}`, `"list" must be a list`},
		{`{"list":["a",2]}`, `"list.1" must be a string`},
		{`{"inner":7}`, `"inner" must be an object`},
		{`{"inner":{"deep":7}}`, `"inner.deep" must be a string`},
		{`{"amount":true}`, `"amount" must be a whole number`},
		{strings.Repeat("[", 1_000_000), "JSON object"},
		{`{"x":` + strings.Repeat("[", 1_000_000), "not valid JSON"},
		{`{"x":` + strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + "}", "not valid JSON"},
		{strings.Repeat(`{"x":`, 1_000_000), "not valid JSON"},
		{`{"x":` + deep + "1,", "not valid JSON"},
	} {
		var into sample
		err := decodeJSON([]byte(tc.body), &into)
		if !errors.Is(err, errMalformedJSON) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%.60q: %v, want %q", tc.body, err, tc.says)
			continue
		}
		text := err.Error()
		if len(text) > 400 || !utf8.ValidString(text) || strings.Contains(text, "sample") || strings.Contains(text, "Go ") ||
			strings.Contains(text, "json:") || strings.Contains(text, "int64") || strings.Contains(text, "httpapi") {
			t.Errorf("%.60q: not fit for a client: %.500s", tc.body, text)
		}
	}
	if err := missingMember("rawAccount"); !errors.Is(err, errMalformedJSON) || !strings.Contains(err.Error(), `"rawAccount" is required`) {
		t.Error(err)
	}
}

func TestAmount(t *testing.T) {
	for text, want := range map[string]amount{
		`"0"`: 0, `"7"`: 7, `"9223372036854775807"`: 1<<63 - 1, `0`: 0, `12`: 12, `9007199254740991`: 1<<53 - 1, `"\u0037"`: 7,
	} {
		var got struct{ A *amount }
		if err := decodeJSON([]byte(`{"A":`+text+`}`), &got); err != nil || got.A == nil || *got.A != want {
			t.Errorf("%s: %v, %v", text, got.A, err)
		}
	}
	for text, sentinel := range map[string]error{
		`"9223372036854775808"`: errNumberTooLarge, `"18446744073709551616"`: errNumberTooLarge, `9223372036854775808`: errNumberTooLarge,
		`"` + strings.Repeat("9", 5000) + `"`: errNumberTooLarge, strings.Repeat("9", 5000): errNumberTooLarge,
		`9007199254740992`: errMalformedJSON, `9223372036854775807`: errMalformedJSON,
		`""`: errMalformedJSON, `"-1"`: errMalformedJSON, `"+1"`: errMalformedJSON, `"01"`: errMalformedJSON, `"00"`: errMalformedJSON,
		`"1.0"`: errMalformedJSON, `"1e3"`: errMalformedJSON, `" 1"`: errMalformedJSON, `"1 "`: errMalformedJSON, `"0x1"`: errMalformedJSON,
		`"1_0"`: errMalformedJSON, `"٣"`: errMalformedJSON, `"a"`: errMalformedJSON, `-1`: errMalformedJSON, `-0`: errMalformedJSON, `1.0`: errMalformedJSON,
		`1e3`: errMalformedJSON, `1E0`: errMalformedJSON, `true`: errMalformedJSON, `[]`: errMalformedJSON, `{}`: errMalformedJSON, `["1"]`: errMalformedJSON,
		`"\ud800"`: errMalformedJSON,
	} {
		var got struct{ A *amount }
		err := decodeJSON([]byte(`{"A":`+text+`}`), &got)
		if !errors.Is(err, sentinel) || !strings.Contains(err.Error(), `"A"`) && text != `"\ud800"` {
			t.Errorf("%.40s: %v, want %v", text, err, sentinel)
		}
		if errors.Is(err, errNumberTooLarge) && errors.Is(err, errMalformedJSON) {
			t.Errorf("%.40s: both too large and malformed", text)
		}
	}
	out, err := json.Marshal(struct{ A amount }{1<<63 - 1})
	if err != nil || string(out) != `{"A":"9223372036854775807"}` {
		t.Errorf("%s, %v", out, err)
	}
}

func TestParseTimestamp(t *testing.T) {
	for text, want := range map[string]string{
		"2030-01-02T15:04:05Z":                "2030-01-02T15:04:05Z",
		"2030-01-02T15:04:05.123456789Z":      "2030-01-02T15:04:05.123456Z",
		"2030-01-02T15:04:05+02:00":           "2030-01-02T13:04:05Z",
		"2030-01-02T23:59:59.999999999-01:00": "2030-01-03T00:59:59.999999Z",
		"0001-01-01T00:00:00.000001Z":         "0001-01-01T00:00:00.000001Z",
		"9999-12-31T23:59:59.999999Z":         "9999-12-31T23:59:59.999999Z",
		"9999-12-31T22:59:59-01:00":           "9999-12-31T23:59:59Z",
	} {
		got, ok := parseTimestamp(text)
		if !ok || got.Format(time.RFC3339Nano) != want || got.Location() != time.UTC {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "now", "2030-01-02", "2030-01-02T15:04:05", "2030-01-02 15:04:05Z", "2030-01-02T5:04:05Z", "2030-01-02T15:04:05,5Z",
		"2030-02-30T15:04:05Z", "2030-01-02T24:00:00Z", "2030-01-02T15:04:05+25:00", "1893596645", " 2030-01-02T15:04:05Z", "Wed, 02 Jan 2030 15:04:05 GMT",
		"9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.0000009Z",
	} {
		if got, ok := parseTimestamp(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestExpiriesThatNoResponseCanContain checks that an expiry that JSON cannot represent is refused
// before anything is stored, and so is the zero time, which means that a blob does not expire.
func TestExpiriesThatNoResponseCanContain(t *testing.T) {
	s := newService(t, nil)
	for _, expires := range []string{"9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z"} {
		s.refused(t, 400, wire.CodeBadHeader, "PUT", "/v1/blobs/0x1/n", "x", wire.HeaderBlobExpires, expires)
		upload := `{"rawAccount":"0x1","rawBlobName":"n","expires":"` + expires + `"}`
		s.refused(t, 400, wire.CodeBadParameter, "POST", "/v1/multipart-uploads", upload)
		channel := `{"expires":"` + expires + `"}`
		s.refused(t, 400, wire.CodeBadParameter, "POST", "/v1/sessions/micropaymentchannels", channel)
	}
	for _, path := range []string{"/v1/blobs/0x1", "/v1/multipart-uploads?account=0x1", "/v1/channels"} {
		s.want(t, 200, "GET", path, "")
	}
}

func TestReadJSON(t *testing.T) {
	request := func(body io.Reader, encodings ...string) *http.Request {
		r := httptest.NewRequest("POST", "/", body)
		r.Header["Content-Encoding"] = encodings
		return r
	}
	pad := func(n int) string { return `{"plain":"` + strings.Repeat("x", n-len(`{"plain":""}`)) + `"}` }

	var got sample
	body, err := readJSON(request(strings.NewReader(` {"plain":"x"}`), "identity", " Identity , "), &got)
	if err != nil || got.Plain != "x" || string(body) != ` {"plain":"x"}` {
		t.Errorf("%q, %+v, %v", body, got, err)
	}
	if body, err = readJSON(request(nil), &got); err != nil || len(body) != 0 {
		t.Errorf("no body: %q, %v", body, err)
	}
	if body, err = readJSON(request(strings.NewReader(pad(maxJSONBody))), &got); err != nil || len(body) != maxJSONBody {
		t.Errorf("the largest body: %d bytes, %v", len(body), err)
	}
	for name, tc := range map[string]struct {
		r    *http.Request
		want error
	}{
		"too large":                 {request(strings.NewReader(pad(maxJSONBody + 1))), exchange.ErrBodyTooLarge},
		"too large, length unknown": {request(iotest.OneByteReader(strings.NewReader(pad(maxJSONBody + 1)))), exchange.ErrBodyTooLarge},
		"too large, announced":      {&http.Request{ContentLength: maxJSONBody + 1, Body: io.NopCloser(iotest.ErrReader(io.ErrClosedPipe))}, exchange.ErrBodyTooLarge},
		"gzip":                      {request(strings.NewReader("{}"), "gzip"), errContentEncoding},
		"identity and gzip":         {request(strings.NewReader("{}"), "identity", "x, gzip"), errContentEncoding},
		"aborted":                   {request(iotest.ErrReader(io.ErrUnexpectedEOF)), io.ErrUnexpectedEOF},
		"too slow":                  {request(iotest.ErrReader(transfer.ErrSlowBody)), transfer.ErrSlowBody},
		"malformed":                 {request(strings.NewReader("{")), errMalformedJSON},
	} {
		if _, err := readJSON(tc.r, &sample{}); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{}`, `{"text":"\ud800x"}`, `{"amount":"9223372036854775808","count":1}`, `{"a":1,"a":2}`, `[[[`, "{\"text\":\"\xff\"}",
		`{"time":"2030-01-02T15:04:05Z","list":["a"],"inner":{"deep":"x"}}`, `{"amount":5,"flag":true,"index":3}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got sample
		err := decodeJSON(data, &got)
		if err != nil {
			if errors.Is(err, errMalformedJSON) == errors.Is(err, errNumberTooLarge) {
				t.Fatalf("%q: %v", data, err)
			}
			if text := err.Error(); !utf8.ValidString(text) || strings.Contains(text, "httpapi") || len(text) > 1000 {
				t.Fatalf("%q: not fit for a client: %q", data, text)
			}
			return
		}
		if got.Text != nil && !utf8.ValidString(*got.Text) {
			t.Fatalf("%q: text %q", data, *got.Text)
		}
		if got.Amount != nil && *got.Amount < 0 {
			t.Fatalf("%q: amount %d", data, *got.Amount)
		}
		out, err := json.Marshal(got)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		var again sample
		if err := decodeJSON(out, &again); err != nil || !equalSamples(got, again) {
			t.Fatalf("%q: %+v, then %s is decoded as %+v, %v", data, got, out, again, err)
		}
	})
}

// equalSamples compares values as JSON represents them, which excludes nil lists and the names of
// time zones.
func equalSamples(a, b sample) bool {
	if (a.Time == nil) != (b.Time == nil) || a.Time != nil && !a.Time.Equal(*b.Time) || fmt.Sprint(a.List) != fmt.Sprint(b.List) {
		return false
	}
	a.Time, b.Time, a.List, b.List = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}
