package s3_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/bytestore/s3"
	"sluice/test/fault"
	"sluice/test/testenv"
)

// noKeys removes the keys from the environment.
func noKeys(t *testing.T) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
}

// awsFile creates an AWS credentials file.
func awsFile(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "credentials")
	testenv.OK(t, os.WriteFile(file, []byte(text), 0o600))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
}

func profile(name, access, secret string) string {
	return fmt.Sprintf("[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n", name, access, secret)
}

func TestCredentials(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	address := "s3://" + server.Bucket + "/keys?endpoint=http://" + server.Addr
	good := func(name string) string { return profile(name, testenv.S3AccessKey, testenv.S3SecretKey) }
	bad := func(name string) string { return profile(name, testenv.S3AccessKey, "another-canary") }
	for _, tc := range []struct {
		name, parameters, file string
		env                    bool
		works                  bool
	}{
		{"variables", "", "", true, true},
		{"variables alone", "&credentials=env", bad("default"), true, true},
		{"variables before the file", "", bad("default"), true, true},
		{"file", "", good("default"), false, true},
		{"file alone", "&credentials=file", bad("default"), true, false},
		{"profile before the variables", "&profile=me", bad("default") + bad("me"), true, false},
		{"profile", "&profile=me", bad("default") + good("me"), false, true},
		{"no such profile", "&profile=you", good("default"), false, false},
		{"nothing", "", "", false, false},
		{"variables alone, which are not there", "&credentials=env", good("default"), false, false},
		{"half a pair", "", "[default]\naws_secret_access_key = another-canary\n", false, false},
		{"no file of that form", "", "another-canary\n[default]\nanother-canary\n", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if !tc.env {
				noKeys(t)
			}
			if tc.file != "" {
				awsFile(t, tc.file)
			}
			s, err := s3.Open(t.Context(), parse(t, "%s%s", address, tc.parameters), s3.Options{Staging: t.TempDir()})
			if err == nil {
				wantErr(t, s.Close(), nil)
			}
			if tc.works != (err == nil) {
				t.Errorf("works %t, got %v", tc.works, err)
			}
			if err != nil && strings.Contains(err.Error(), "canary") {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

// TestNoLookupsWithoutKeys checks that no server is queried for keys if there are none, in
// particular not the machine's metadata address.
func TestNoLookupsWithoutKeys(t *testing.T) {
	noKeys(t)
	watch := func(http.RoundTripper) http.RoundTripper {
		w := &wire{}
		w.handle(func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			t.Errorf("a request to %s", r.URL)
			return fault.Fail.Send(r, nil)
		})
		return w
	}
	_, err := s3.Open(t.Context(), parse(t, "s3://bucket?endpoint=http://127.0.0.1:1"), s3.Options{Staging: t.TempDir(), Transport: watch})
	if err == nil || !strings.Contains(err.Error(), "no credentials found") {
		t.Errorf("got %v", err)
	}
}

// TestRoleOfAContainer checks that a role named by the environment is used.
func TestRoleOfAContainer(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	noKeys(t)
	roles := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "token" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		err := json.NewEncoder(w).Encode(map[string]string{
			"AccessKeyId": testenv.S3AccessKey, "SecretAccessKey": testenv.S3SecretKey,
			"Expiration": time.Now().Add(time.Hour).Format(time.RFC3339),
		})
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(roles.Close)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", roles.URL)
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "token")
	for _, parameter := range []string{"", "&credentials=iam"} {
		s := mustOpen(t, parse(t, "s3://%s/role?endpoint=http://%s%s", server.Bucket, server.Addr, parameter), s3.Options{})
		mustPut(t, s, content(1, 10))
	}
}

// TestErrorsHoldNoSecrets checks the errors from a server that knows the key but not its secret, or
// not the session.
func TestErrorsHoldNoSecrets(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	for variable, code := range map[string]string{"AWS_SECRET_ACCESS_KEY": "403 SignatureDoesNotMatch", "AWS_SESSION_TOKEN": "400 "} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "another-canary")
			_, err := s3.Open(t.Context(), freshPrefix(t, server), s3.Options{Staging: t.TempDir()})
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), server.Bucket) || !strings.Contains(err.Error(), code) {
				t.Errorf("the error names no bucket and code: %v", err)
			}
			t.Log(err)
		})
	}
}

func TestOpenWithoutItsBucket(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	_, err := s3.Open(t.Context(), parse(t, "s3://another?endpoint=http://%s", server.Addr), s3.Options{Staging: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "NoSuchBucket") || !strings.Contains(err.Error(), "s3://another") {
		t.Errorf("got %v", err)
	}
}

// TestServersThatReplaceAreRefused checks servers that reject conditional writes, or that accept a
// second object with the same name.
func TestServersThatReplaceAreRefused(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	c := freshPrefix(t, server)
	for _, f := range []handler{respondsWith(501, "NotImplemented"), respondsWith(200, "")} {
		_, err := s3.Open(t.Context(), c, s3.Options{Staging: t.TempDir(), Transport: func(next http.RoundTripper) http.RoundTripper {
			w := &wire{next: next}
			w.handle(times(always, http.MethodPut, f))
			return w
		}})
		if err == nil || !strings.Contains(err.Error(), "conditional writes") {
			t.Errorf("got %v", err)
		}
	}
	for range 2 { // the second Open finds the first one's object
		mustOpen(t, c, s3.Options{})
	}
	_, err := s3.Open(t.Context(), c, s3.Options{Staging: t.TempDir(), Transport: func(next http.RoundTripper) http.RoundTripper {
		w := &wire{next: next}
		w.handle(times(always, http.MethodPut, respondsWith(403, "AccessDenied")))
		return w
	}})
	if err == nil || !strings.Contains(err.Error(), "test write") {
		t.Errorf("without the right to write: %v", err)
	}
}
