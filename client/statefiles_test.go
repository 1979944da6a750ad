package client_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sluice/client"
	"sluice/test/testenv"
)

// TestStateFiles checks which state files are refused, and the errors' texts.
func TestStateFiles(t *testing.T) {
	c := newClient(t, newService(t, serviceOptions{}))
	dir := testenv.MemoryDir(t)
	p := newPayer(t, c, dir)
	testenv.OK(t, testenv.Error(p.Buy(t.Context(), 1)))
	file := filepath.Join(dir, "payer.json")
	good := testenv.Must(os.ReadFile(file))(t)
	if info, err := os.Stat(file); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	replace := func(old, instead string) string {
		text := strings.Replace(string(good), old, instead, 1)
		if text == string(good) {
			t.Fatalf("%q is not in the state file:\n%s", old, good)
		}
		return text
	}
	for name, test := range map[string]struct {
		text, want string
	}{
		"empty":            {"", "is not JSON"},
		"not JSON":         {"hello", "is not JSON"},
		"an array":         {"[]", "is not JSON"},
		"no version":       {"{}", "version 0"},
		"newer":            {replace(`"version": 1`, `"version": 2`), "version 2, and this program knows only version 1"},
		"unknown member":   {replace(`"version": 1`, `"version": 1, "x": 1`), "unknown field"},
		"text after it":    {string(good) + "x", "is not JSON"},
		"other service":    {replace("localhost:9090", "example:1"), "belongs to the service http://example:1"},
		"other account":    {replace(`"account": "0x`, `"account": "0x5`), "account is not an address"},
		"bought too much":  {replace(`"bought": "10"`, `"bought": "11"`), "bought is 11, above signed 10"},
		"signed too much":  {replace(`"signed": "10"`, `"signed": "9223372036854775808"`), "above 2^63-1"},
		"negative":         {replace(`"signed": "10"`, `"signed": "-1"`), "signed"},
		"number":           {replace(`"signed": "10"`, `"signed": 10`), "unquoted value"},
		"channel id":       {replace(`"id": "`, `"openKey": "`), "no id"},
		"without terms":    {replace(`"terms"`, `"Terms2"`), "unknown field"},
		"empty purchase":   {replace(`"bought": "10"`, `"bought": "1", "pending": {}`), "inconsistent"},
		"too large a file": {string(good) + strings.Repeat(" ", 1<<20), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.OK(t, os.WriteFile(file, []byte(test.text), 0o600))
			_, err := c.NewPayer(t.Context(), payerOptions(t, dir))
			checkMessage(t, err, errAny, test.want, file)
			checkContent(t, file, []byte(test.text)) // unchanged
		})
	}
	testenv.OK(t, os.WriteFile(file, good, 0o600))
	signer := testenv.Must(newSigner(2))(t)
	testenv.Is(t, testenv.Error(c.NewPayer(t.Context(), payerOptions(t, dir, func(o *client.PayerOptions) { o.Signer = signer }))), client.ErrInvalid, "the key of another account")
	if runtime.GOOS != "windows" {
		for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
			testenv.OK(t, os.Chmod(file, mode))
			checkMessage(t, testenv.Error(c.NewPayer(t.Context(), payerOptions(t, dir))), errAny, "run chmod 600 "+file)
		}
		testenv.OK(t, os.Chmod(file, 0o600))
	}
	testenv.Check(t, testenv.Error(c.NewPayer(t.Context(), payerOptions(t, dir))))
	testenv.Is(t, testenv.Error(c.NewPayer(t.Context(), payerOptions(t, filepath.Join(dir, "none")))), os.ErrNotExist, "a folder that does not exist")
	for name, change := range map[string]func(*client.PayerOptions){
		"Signer":    func(o *client.PayerOptions) { o.Signer = nil },
		"StateFile": func(o *client.PayerOptions) { o.StateFile = "" },
		"MaxPrice":  func(o *client.PayerOptions) { o.MaxPrice = 0 },
		"MaxSpend":  func(o *client.PayerOptions) { o.MaxSpend = 0 },
		"Chunksets": func(o *client.PayerOptions) { o.Chunksets = -1 },
		"Terms":     func(o *client.PayerOptions) { o.Terms = &client.Terms{} },
	} {
		checkMessage(t, testenv.Error(c.NewPayer(t.Context(), payerOptions(t, dir, change))), client.ErrInvalid, name)
	}
}
