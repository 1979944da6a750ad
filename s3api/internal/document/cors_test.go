package document

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sluice/test/testenv"
)

func corsOf(rules ...string) string {
	return "<CORSConfiguration xmlns=\"" + namespace + "\"><CORSRule>" + strings.Join(rules, "</CORSRule><CORSRule>") + "</CORSRule></CORSConfiguration>"
}

const corsRule = "<AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"

func TestDecodeCORS(t *testing.T) {
	age := 0
	full := CORSRule{ID: "x", Headers: []string{"x-amz-*", "Range"}, Methods: []string{"GET", "PUT"}, Origins: []string{"https://*.example", "*"}, Exposed: []string{"ETag"}, MaxAge: &age}
	body := corsOf("<ID>x</ID><AllowedOrigin>https://*.example</AllowedOrigin><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod>"+
		"<AllowedHeader>x-amz-*</AllowedHeader><AllowedHeader>Range</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>0</MaxAgeSeconds>", corsRule)
	got := testenv.Must(DecodeCORS([]byte(body)))(t)
	if want := []CORSRule{full, {Methods: []string{"GET"}, Origins: []string{"https://a.example"}}}; !reflect.DeepEqual(got.Rules, want) {
		t.Errorf("%+v, want %+v", got.Rules, want)
	}
	again := testenv.Must(DecodeCORS(Encode(got)))(t)
	if !reflect.DeepEqual(got, again) {
		t.Errorf("written and read again: %+v, want %+v", again, got)
	}
	for _, c := range []struct {
		body string
		is   error
	}{
		{"", ErrMalformed},
		{"<CORSConfiguration/>", ErrMalformed},
		{corsOf(strings.Fields(strings.Repeat(strings.ReplaceAll(corsRule, " ", "")+" ", MostCORSRules+1))...), ErrMalformed},
		{corsOf("<AllowedMethod>GET</AllowedMethod>"), ErrMalformed},
		{corsOf("<AllowedOrigin>*</AllowedOrigin>"), ErrMalformed},
		{corsOf(corsRule + "<AllowCredentials>true</AllowCredentials>"), ErrMalformed},
		{strings.Replace(corsOf(corsRule), "</CORSC", "<X/></CORSC", 1), ErrMalformed},
		{corsOf(corsRule + "<ID>a</ID><ID>b</ID>"), ErrMalformed},
		{corsOf(corsRule + "<MaxAgeSeconds>-1</MaxAgeSeconds>"), ErrMalformed},
		{corsOf(corsRule + "<ID>" + strings.Repeat("x", 256) + "</ID>"), ErrCORS},
		{corsOf(corsRule + "<AllowedMethod>PATCH</AllowedMethod>"), ErrCORS},
		{corsOf(corsRule + "<AllowedMethod>get</AllowedMethod>"), ErrCORS},
		{corsOf(corsRule + "<AllowedOrigin>https://*.*.example</AllowedOrigin>"), ErrCORS},
		{corsOf(corsRule + "<AllowedOrigin></AllowedOrigin>"), ErrCORS},
		{corsOf(corsRule + "<AllowedOrigin>a b</AllowedOrigin>"), ErrCORS},
		{corsOf(corsRule + "<AllowedHeader>a b</AllowedHeader>"), ErrCORS},
		{corsOf(corsRule + "<ExposeHeader>*</ExposeHeader>"), ErrCORS},
	} {
		if got, err := DecodeCORS([]byte(c.body)); !errors.Is(err, c.is) || len(got.Rules) > 0 && c.is == nil {
			t.Errorf("%.200s: %+v, %v, want %v", c.body, got, err, c.is)
		}
	}
}

func TestFindCORSRule(t *testing.T) {
	c := testenv.Must(DecodeCORS([]byte(corsOf(
		"<ID>1</ID><AllowedOrigin>https://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod>",
		"<ID>2</ID><AllowedOrigin>https://*.example</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><AllowedMethod>GET</AllowedMethod><AllowedHeader>X-Amz-*</AllowedHeader><AllowedHeader>range</AllowedHeader>",
		"<ID>3</ID><AllowedOrigin>*</AllowedOrigin><AllowedMethod>HEAD</AllowedMethod><AllowedHeader>*</AllowedHeader>"))))(t)
	for _, q := range []struct{ origin, method, fields, rule string }{
		{"https://a.example", "GET", "", "1"},
		{"https://a.example", "GET", "range", "2"},
		{"https://b.example", "PUT", "x-amz-date range", "2"},
		{"https://b.example", "PUT", "x-amz-date authorization", ""},
		{"https://.example", "GET", "", "2"},
		{"https://example", "GET", "", ""},
		{"http://b.example", "GET", "", ""},
		{"https://A.example", "PUT", "", "2"},
		{"null", "HEAD", "any", "3"},
		{"https://a.example", "DELETE", "", ""},
	} {
		rule := ""
		if r := c.Find(q.origin, q.method, strings.Fields(q.fields)); r != nil {
			rule = r.ID
		}
		testenv.Equal(t, rule, q.rule, "%s", fmt.Sprint(q))
	}
	testenv.Equal(t, matches("aa*aa", "aaa"), false, "a text that is shorter than its pattern")
}

func TestDecodePublicAccessBlock(t *testing.T) {
	body := "<PublicAccessBlockConfiguration><BlockPublicAcls>TRUE</BlockPublicAcls><IgnorePublicAcls>false</IgnorePublicAcls><RestrictPublicBuckets>true</RestrictPublicBuckets></PublicAccessBlockConfiguration>"
	got := testenv.Must(DecodePublicAccessBlock([]byte(body)))(t)
	testenv.Equal(t, got, PublicAccessBlock{BlockPublicAcls: true, RestrictPublicBuckets: true}, "the protection")
	testenv.Equal(t, testenv.Must(DecodePublicAccessBlock(Encode(got)))(t), got, "written and read again")
	for _, body := range []string{"", "<A/>", strings.Replace(body, "TRUE", "yes", 1), strings.Replace(body, "IgnorePublicAcls>", "Other>", 2), strings.Replace(body, "RestrictPublicBuckets>", "BlockPublicAcls>", 2)} {
		if got, err := DecodePublicAccessBlock([]byte(body)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}
