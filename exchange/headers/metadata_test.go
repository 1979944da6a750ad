package headers

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"sluice/test/testenv"
	"sluice/wire"
)

func fieldsOf(m Metadata) map[string]string { return maps.Collect(m.Fields()) }

func TestMetadataOfHeaders(t *testing.T) {
	h := http.Header{}
	for name, value := range map[string]string{
		"cache-control": "public, max-age=60", "CONTENT-DISPOSITION": `attachment; filename="a:b.txt"`, "Content-Language": "de, en",
		"blob-meta-color-of-roof": "dark : red", "Blob-Meta-!#$%&'*+.^_`|~9": "~", "Blob-Meta-Empty": "",
		"Content-Type": "text/plain", "Blob-Expires": "never", "Blob-Meta": "none", "Blob-Metadata": "none", "X-Blob-Meta-A": "none",
	} {
		h.Set(name, value)
	}
	m := testenv.Must(ParseMetadata(h))(t)
	const want = "Blob-Meta-!#$%&'*+.^_`|~9:~\nBlob-Meta-Color-Of-Roof:dark : red\nCache-Control:public, max-age=60\n" +
		"Content-Disposition:attachment; filename=\"a:b.txt\"\nContent-Language:de, en\n"
	if m != want {
		t.Errorf("%q, want %q", m, want)
	}
	again, err := NewMetadata("public, max-age=60", `attachment; filename="a:b.txt"`, "de, en",
		map[string]string{"COLOR-of-roof": "dark : red", "!#$%&'*+.^_`|~9": "~", "empty": ""})
	if err != nil || again != m {
		t.Errorf("of members: %q, %v", again, err)
	}
	for value, h := range map[string]http.Header{
		"no-cache": {"Cache-Control": {"no-cache"}}, "max-age=1": {"Cache-Control": {"max-age=1"}, "Pragma": {"no-cache"}, "Origin": {"http://x"}},
		"max-age=0": {"Cache-Control": {"max-age=0"}}, "no-cache, max-age=0": {"Cache-Control": {"no-cache, max-age=0"}, "Origin": {"http://x"}},
	} {
		if m, err := ParseMetadata(h); err != nil || fieldsOf(m)["Cache-Control"] != value {
			t.Errorf("%v: %q, %v", h, m, err)
		}
	}
	if name, ok := MetaName("Blob-Meta-Color-Of-Roof"); name != "color-of-roof" || !ok {
		t.Errorf("%q, %t", name, ok)
	}
	if _, ok := MetaName("Content-Language"); ok {
		t.Error("Content-Language is custom")
	}
	for _, none := range []http.Header{nil, {}, {"Content-Type": {"a/b"}}, {"Cache-Control": {""}},
		{"Cache-Control": {"no-cache"}, "Pragma": {"no-cache"}}, {"Cache-Control": {"max-age=0"}, "Origin": {"null"}}} {
		if m, err := ParseMetadata(none); m != "" || err != nil || len(fieldsOf(m)) != 0 {
			t.Errorf("%v: %q, %v", none, m, err)
		}
	}
}

func TestMetadataThatIsRefused(t *testing.T) {
	full := strings.Repeat("v", wire.MaxBlobMeta-len("Blob-Meta-A")-len("Blob-Meta-B")-1)
	if m, err := ParseMetadata(http.Header{"Blob-Meta-A": {full}, "Blob-Meta-B": {"v"}}); err != nil || len(m) != wire.MaxBlobMeta+2*2 {
		t.Errorf("the most that fits: %d bytes, %v", len(m), err)
	}
	long := func(n int) string { return strings.Repeat("a", n) }
	for name, value := range map[string]string{
		"Cache-Control": long(wire.MaxCacheControl), "Content-Disposition": long(wire.MaxContentDisposition), "Content-Language": long(wire.MaxContentLanguage),
	} {
		if _, err := ParseMetadata(http.Header{name: {value}}); err != nil {
			t.Errorf("the longest %s: %v", name, err)
		}
		testenv.Is(t, testenv.Error(ParseMetadata(http.Header{name: {value + "a"}})), ErrMalformedMetadata, "a %s that is too long", name)
	}
	for _, h := range []http.Header{
		{"Blob-Meta-A": {full}, "Blob-Meta-B": {"vv"}},
		{"Blob-Meta-A": {"1", "1"}}, {"Cache-Control": {"public", "max-age=1"}}, {"Content-Disposition": {"a", ""}}, {"Content-Language": {}},
		{"Blob-Meta-": {"v"}}, {"Blob-Meta-A B": {"v"}}, {"Blob-Meta-Ü": {"v"}}, {"Blob-Meta-A:": {"v"}}, {"Blob-Meta-\n": {"v"}},
		{"Blob-Meta-A": {"ü"}}, {"Blob-Meta-A": {"a\t"}}, {"Blob-Meta-A": {"a\nb"}}, {"Blob-Meta-A": {"\x7f"}}, {"Blob-Meta-A": {" a"}}, {"Blob-Meta-A": {"a "}},
		{"Content-Language": {"d\xe9"}}, {"Content-Disposition": {"a\x00"}}, {"Cache-Control": {"max-age"}},
	} {
		if m, err := ParseMetadata(h); !errors.Is(err, ErrMalformedMetadata) || m != "" {
			t.Errorf("%q: %q, %v", h, m, err)
		}
	}
	many := map[string]string{}
	for i := range wire.MaxBlobMetaHeaders {
		many[fmt.Sprint(i)] = "v"
	}
	if m, err := NewMetadata("", "", "", many); err != nil || len(fieldsOf(m)) != wire.MaxBlobMetaHeaders {
		t.Errorf("as many as are allowed: %q, %v", m, err)
	}
	many["more"] = "v"
	for _, custom := range []map[string]string{many, {"A": "1", "a": "1"}, {"": "1"}, {"a b": "1"}, {"ü": "1"}, {"a": "1\r\nX: y"}} {
		if m, err := NewMetadata("", "", "", custom); !errors.Is(err, ErrMalformedMetadata) || m != "" {
			t.Errorf("%q: %q, %v", custom, m, err)
		}
	}
}

// TestCharactersOfMetaNames checks each byte against the list in RFC 9110, section 5.6.2.
func TestCharactersOfMetaNames(t *testing.T) {
	const token = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for b := range 256 {
		// Which become upper and lower case.
		for _, name := range []string{string([]byte{byte(b)}), string([]byte{'a', byte(b)})} {
			_, err := NewMetadata("", "", "", map[string]string{name: "v"})
			if want := strings.IndexByte(token, byte(b)) >= 0; (err == nil) != want {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// FuzzMetadata checks that accepted headers are returned unchanged, and fit into a response.
// Invariant 12.
func FuzzMetadata(f *testing.F) {
	f.Add("Blob-Meta-Color", "red", "max-age=1", `attachment; filename="x"`)
	f.Add("Blob-Meta-A\nB", "a:b", "s-maxage=1, public", "")
	f.Add("Blob-Meta-a", " ", `no-cache="a, b"`, "\x00")
	f.Fuzz(func(t *testing.T, name, value, cacheControl, disposition string) {
		h := http.Header{"Cache-Control": {cacheControl}, "Content-Disposition": {disposition}}
		h.Set(name, value)
		m, err := ParseMetadata(h)
		if (err != nil) != errors.Is(err, ErrMalformedMetadata) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if len(m) > 2*wire.MaxBlobMeta+wire.MaxCacheControl+wire.MaxContentDisposition {
			t.Fatalf("%d bytes", len(m))
		}
		got := http.Header{}
		for name, value := range m.Fields() {
			if value == "" || strings.Trim(name+value, "\x00\r\n") != name+value || http.CanonicalHeaderKey(name) != name {
				t.Fatalf("%q: %q", name, value)
			}
			if got.Get(name) != "" {
				t.Fatalf("%q occurs twice", name)
			}
			if h.Get(name) != value {
				t.Fatalf("%q is %q, and was %q", name, value, h.Get(name))
			}
			got[name] = []string{value}
		}
		if again, err := ParseMetadata(got); err != nil || again != m {
			t.Fatalf("%q, then %q, %v", m, again, err)
		}
	})
}

// FuzzForeignMetadata checks that whatever other stores keep is sent in a form that MetadataOf
// accepts, unless it became too long.
// Invariant 188.
func FuzzForeignMetadata(f *testing.F) {
	f.Add("Blob-Meta-A", "\xe4", "max-age=1h", `attachment; filename="ä"`)
	f.Add("Blob-Meta-B", "=?UTF-8?b?", `private="ä"`, `in=line; filename*=UTF-8''%ZZ; x="`)
	f.Add("Expires", "ä", "\t,", "Ä;")
	f.Fuzz(func(t *testing.T, name, value, cacheControl, disposition string) {
		fields := map[string]string{"Cache-Control": cacheControl, "Content-Disposition": disposition}
		fields[http.CanonicalHeaderKey(name)] = value
		m, err := ForeignMetadataOf(fields, "x-amz-meta-")
		if err != nil {
			if !errors.Is(err, ErrMalformedMetadata) || strings.Contains(err.Error(), wire.HeaderBlobMeta) {
				t.Fatal(err)
			}
			return
		}
		for name, value := range m.Fields() {
			if limit, fixed := fixedLimit(name); fixed && len(value) > limit || !fixed && len(name)+len(value) > wire.MaxBlobMeta {
				continue
			}
			value = strings.Trim(value, " \t") // as a server reads it
			if _, err := MetadataOf(map[string]string{name: value}); err != nil {
				t.Fatalf("%q: %q is sent: %v", name, value, err)
			}
		}
	})
}
