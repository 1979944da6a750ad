package bucketpolicy

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// policies are for the bucket "b", with the permissions that they give.
var policies = map[string][]Open{
	// As the AWS documentation grants read access to everybody.
	`{"Version":"2012-10-17","Statement":[{"Sid":"PublicRead","Effect":"Allow","Principal":"*","Action":["s3:GetObject"],"Resource":["arn:aws:s3:::b/*"]}]}`: {{}},
	// As MinIO's client lets everybody download a folder.
	`{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetBucketLocation"],"Resource":["arn:aws:s3:::b"]},
		{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:ListBucket"],"Resource":["arn:aws:s3:::b"],"Condition":{"StringEquals":{"s3:prefix":["photos"]}}},
		{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::b/photos*"]}]}`: {{Name: "photos"}, {Lists: true, Name: "photos"}},
	// As ceph's suite asks for both levels at once.
	`{"Statement":{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"s3:ListBucket","Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]}}`:                                    {{Lists: true}},
	`{"Statement":{"Effect":"Allow","Principal":"*","Action":["s3:getobject","S3:ListBucket"],"Resource":["arn:aws:s3:::b","arn:aws:s3:::b/a b","arn:aws:s3:::b/a b"]}}`:    {{Lists: true}, {Exact: true, Name: "a b"}},
	`{"Id":"x","Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{"s3:Prefix":["","a/*"]}}}}`:    {{Lists: true}, {Lists: true, Name: "a/"}},
	`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringEquals":{"s3:prefix":"a*"}}}}`:                 {{Lists: true, Name: "a*"}},
	`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":["arn:aws:s3:::b/${*}${?}${$}{x}*", "arn:aws:s3:::b/${*}"]}}`: {{Exact: true, Name: "*"}, {Name: "*?${x}"}},
	`{"Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:GetBucketLocation","s3:ListBucket"],"Resource":"arn:aws:s3:::b"}]}`:                                      {{Lists: true}},
}

// refused are for the bucket "b", with their errors and parts of the errors' texts.
var refused = []struct {
	policy string
	is     error
	names  string
}{
	{``, ErrMalformed, ""},
	{`[]`, ErrMalformed, ""},
	{`{}`, ErrMalformed, "Statement"},
	{`{"Statement":[]}`, ErrMalformed, "Statement"},
	{`{"Version":"2020","Statement":[{}]}`, ErrMalformed, "Version"},
	{`{"Statement":[{}],"statement":[{}]}`, ErrMalformed, "statement"},
	{`{"Statement":[{}],"Statement":[{}]}`, ErrMalformed, "Statement"},
	{`{"Statement":{"Effect":"Permit","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}`, ErrMalformed, "Effect"},
	{`{"Statement":{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}`, ErrMalformed, "Principal"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Resource":"arn:aws:s3:::b/*"}}`, ErrMalformed, "Action"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject"}}`, ErrMalformed, "Resource"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::other/*"}}`, ErrMalformed, "other"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bb"}}`, ErrMalformed, "bb"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/"}}`, ErrMalformed, "b/"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b"}}`, ErrMalformed, "does not apply"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b/*"}}`, ErrMalformed, "does not apply"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:ListBucket"],"Resource":"arn:aws:s3:::b/*"}}`, ErrMalformed, "does not apply"},
	{`{"Statement":{"Sid":"No","Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}`, ErrUnsupported, `statement 1 ("No")`},
	{`{"Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:root"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}`, ErrUnsupported, "Principal"},
	{`{"Statement":{"Effect":"Allow","Principal":{"AWS":["*","*"]},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}`, ErrUnsupported, "Principal"},
	{`{"Statement":{"Effect":"Allow","Principal":{"Federated":"*"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}`, ErrUnsupported, "Principal"},
	{`{"Statement":{"Effect":"Allow","NotPrincipal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*"}}`, ErrMalformed, "NotPrincipal"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::b/*"}}`, ErrUnsupported, "s3:*"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:PutObject","Resource":"arn:aws:s3:::b/*"}}`, ErrUnsupported, "s3:PutObject"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetBucketLocation","Resource":"arn:aws:s3:::b"}}`, ErrUnsupported, "location"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*.jpg"}}`, ErrUnsupported, "*.jpg"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/${*}"}}`, ErrUnsupported, "${*}"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/a?"}}`, ErrUnsupported, "a?"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/${aws:username}/*"}}`, ErrUnsupported, "aws:username"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/*","Condition":{"IpAddress":{"aws:SourceIp":"1.2.3.4"}}}}`, ErrUnsupported, "Condition"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":["s3:ListBucket","s3:GetObject"],"Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"],"Condition":{"StringLike":{"s3:prefix":"a*"}}}}`, ErrUnsupported, "Condition"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{"s3:prefix":"a*","s3:max-keys":"1"}}}}`, ErrUnsupported, "Condition"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{"s3:prefix":"a*"},"StringEquals":{"s3:prefix":"b"}}}}`, ErrUnsupported, "Condition"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{"s3:prefix":[]}}}}`, ErrMalformed, "value"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{}}}}`, ErrMalformed, "value"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{"s3:prefix":null}}}}`, ErrMalformed, "null"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":{"StringLike":{"s3:prefix":["a*",null]}}}}`, ErrMalformed, "null"},
	{`{"Statement":{"Effect":"Allow","Principal":"*","Action":"s3:ListBucket","Resource":"arn:aws:s3:::b","Condition":null}}`, ErrMalformed, "null"},
}

func TestParse(t *testing.T) {
	for text, want := range policies {
		if got, err := Parse([]byte(text), "b"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
		line := Line([]byte(text))
		if got, err := Parse([]byte(line), "b"); err != nil || !reflect.DeepEqual(got, want) || strings.Contains(line, "\n") {
			t.Errorf("%s: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for _, r := range refused {
		if open, err := Parse([]byte(r.policy), "b"); !errors.Is(err, r.is) || !strings.Contains(err.Error(), r.names) {
			t.Errorf("%s: %+v, %v, want %v that names %q", r.policy, open, err, r.is, r.names)
		}
	}
}

// FuzzParse checks that a policy gives the same permissions after it was written by Format, and
// that every error has a kind.
func FuzzParse(f *testing.F) {
	for text := range policies {
		f.Add([]byte(text))
	}
	for _, r := range refused {
		f.Add([]byte(r.policy))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		open, err := Parse(text, "b")
		if err != nil {
			if len(open) > 0 || !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("%+v, %v", open, err)
			}
			return
		}
		if len(open) == 0 {
			t.Fatal("no permissions")
		}
		written := Format("b", open)
		again, err := Parse(written, "b")
		// A permission to list everything stands for all permissions to list names with a prefix.
		if all := (Open{Lists: true}); slices.Contains(open, all) {
			narrower := func(o Open) bool { return o.Lists && o != all }
			open = slices.DeleteFunc(open, narrower)
		}
		if err != nil || !reflect.DeepEqual(again, open) {
			t.Fatalf("%s: %+v, %v, want %+v", written, again, err, open)
		}
	})
}
