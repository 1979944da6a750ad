package headers

import (
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice/wire"
)

// Metadata are the headers in which a writer describes a blob for its readers, in the form in
// which they are stored: a line "Name:value\n" for each of them, sorted by name, with names in the
// spelling of http.CanonicalHeaderKey. It contains only Cache-Control, Content-Disposition,
// Content-Language, Content-Encoding, Expires and headers that begin with wire.HeaderBlobMeta, with
// values in UTF-8 without control characters except tabs. See also Property. The zero value has no
// headers.
type Metadata string

// propertyPrefix begins the names of properties, see Property.
const propertyPrefix = "X-Amz-"

// fixedLimit returns how many bytes the value may have in a header that is not custom. It returns
// false for every other header.
func fixedLimit(name string) (limit int, ok bool) {
	switch name {
	case "Cache-Control":
		return wire.MaxCacheControl, true
	case "Content-Disposition":
		return wire.MaxContentDisposition, true
	case "Content-Language":
		return wire.MaxContentLanguage, true
	case "Content-Encoding", "Expires":
		return maxForeign, true
	default:
		return 0, false
	}
}

// maxForeign is how long headers may be that only S3's clients state.
const maxForeign = 64

// isForeign reports whether only S3's clients state the header.
func isForeign(name string) bool { return name == "Content-Encoding" || name == "Expires" }

// ParseMetadata returns the metadata in a request's headers. A header with an empty value is
// equivalent to none, and so is the Cache-Control that fetch adds to conditional requests on its
// own. Errors wrap ErrMalformedMetadata.
func ParseMetadata(h http.Header) (Metadata, error) {
	var fields map[string]string
	for name, values := range h {
		if _, fixed := fixedLimit(name); isForeign(name) || !fixed && !strings.HasPrefix(name, wire.HeaderBlobMeta) {
			continue
		}
		if len(values) != 1 {
			return "", fmt.Errorf("%w: %s must occur once", ErrMalformedMetadata, displayName(name, wire.HeaderBlobMeta))
		}
		if fields == nil {
			fields = map[string]string{}
		}
		fields[name] = values[0]
	}
	if isOfFetch(h) {
		delete(fields, "Cache-Control")
	}
	return MetadataOf(fields)
}

// isOfFetch reports whether a request's Cache-Control is one that browsers and Node.js add to a
// fetch with a condition, which is about the request. Chromium adds max-age=0. The Fetch standard
// ("HTTP-network-or-cache fetch") has no-cache, together with Pragma. Browsers send Origin with
// every fetch that is not GET or HEAD.
func isOfFetch(h http.Header) bool {
	value := h.Get("Cache-Control")
	return (value == "no-cache" || value == "max-age=0") && (h.Get("Origin") != "" || h.Get("Pragma") == "no-cache")
}

// NewMetadata returns the metadata that consists of these headers. The keys of custom are names
// without wire.HeaderBlobMeta. An empty value is equivalent to none. Errors wrap
// ErrMalformedMetadata.
func NewMetadata(cacheControl, contentDisposition, contentLanguage string, custom map[string]string) (Metadata, error) {
	fields := map[string]string{
		"Cache-Control":       cacheControl,
		"Content-Disposition": contentDisposition,
		"Content-Language":    contentLanguage,
	}
	for name, value := range custom {
		key := http.CanonicalHeaderKey(wire.HeaderBlobMeta + name)
		if _, twice := fields[key]; twice {
			return "", fmt.Errorf("%w: %s must occur once, in upper or lower case", ErrMalformedMetadata, displayName(key, wire.HeaderBlobMeta))
		}
		fields[key] = value
	}
	return MetadataOf(fields)
}

// MetadataOf returns the metadata that consists of these headers, whose names must be canonical and
// belong to metadata. An empty value is equivalent to none. Errors wrap ErrMalformedMetadata.
func MetadataOf(fields map[string]string) (Metadata, error) {
	if len(fields) == 0 {
		return "", nil
	}
	kept := maps.Clone(fields)
	maps.DeleteFunc(kept, func(_, value string) bool { return value == "" })
	return assemble(kept, wire.HeaderBlobMeta, checkMetadata)
}

// ForeignMetadataOf is MetadataOf for metadata that other stores keep. A custom header may be
// empty, a Cache-Control may have any form, and all values may have every character except control
// characters other than tabs. Bytes that are not UTF-8 are converted from ISO 8859-1. Errors name
// custom headers by prefix instead of wire.HeaderBlobMeta.
func ForeignMetadataOf(fields map[string]string, prefix string) (Metadata, error) {
	kept := map[string]string{}
	for name, value := range fields {
		if !utf8.ValidString(value) {
			value = fromLatin1(value)
		}
		if _, fixed := fixedLimit(name); value != "" || !fixed {
			kept[name] = value
		}
	}
	return assemble(kept, prefix, checkForeign)
}

// assemble returns the metadata with these headers. Errors name custom headers by prefix.
func assemble(fields map[string]string, prefix string, check func(name, value, prefix string) error) (Metadata, error) {
	var text strings.Builder
	custom, size := 0, 0
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		if err := check(name, value, prefix); err != nil {
			return "", err
		}
		if _, fixed := fixedLimit(name); !fixed {
			custom++
			size += len(name) + len(value)
		}
		text.WriteString(name + ":" + value + "\n")
	}
	if custom > wire.MaxBlobMetaHeaders || size > wire.MaxBlobMeta {
		return "", fmt.Errorf("%w: a blob can have at most %d headers %s*, with %d bytes of names and values in total; it has %d, with %d bytes",
			ErrLargeMetadata, wire.MaxBlobMetaHeaders, prefix, wire.MaxBlobMeta, custom, size)
	}
	return Metadata(text.String()), nil
}

// CheckCacheControl returns an error that wraps ErrMalformedMetadata if the value cannot be a
// blob's Cache-Control.
func CheckCacheControl(value string) error {
	return checkMetadata("Cache-Control", value, wire.HeaderBlobMeta)
}

// checkMetadata checks one header, which is sent as it is.
func checkMetadata(name, value, prefix string) error {
	if err := checkForeign(name, value, prefix); err != nil {
		return err
	}
	switch {
	case strings.Trim(value, " \t") != value || strings.ContainsFunc(value, isNotPrintable):
		hint := ""
		if name == "Content-Disposition" {
			hint = "; other characters of a file's name belong to filename*=UTF-8'' (RFC 8187), escaped with %"
		}
		return fmt.Errorf("%w: %s must consist of visible ASCII characters, with spaces and tabs only between them%s", ErrMalformedMetadata, displayName(name, prefix), hint)
	case name == "Cache-Control":
		_, err := parseCacheControl(value)
		return err
	default:
		return nil
	}
}

// checkForeign checks one header, which may have to be converted before it is sent.
func checkForeign(name, value, prefix string) error {
	limit, fixed := fixedLimit(name)
	switch {
	case !fixed && !isMetaName(name):
		return fmt.Errorf("%w: the name after %s must consist of letters, digits and !#$%%&'*+-.^_`|~", ErrMalformedMetadata, prefix)
	case fixed && len(value) > limit:
		return fmt.Errorf("%w: %s must have at most %d characters", ErrMalformedMetadata, name, limit)
	case strings.ContainsFunc(value, isControl):
		return fmt.Errorf("%w: %s must not have control characters", ErrMalformedMetadata, displayName(name, prefix))
	default:
		return nil
	}
}

// displayName returns a header's name for errors, which are logged. They do not have a custom
// header's name, because its writer has chosen it.
func displayName(name, prefix string) string {
	if _, fixed := fixedLimit(name); fixed {
		return name
	}
	return "each " + prefix + "* header"
}

// isMetaName reports whether a custom header has this name.
func isMetaName(name string) bool {
	rest, ok := strings.CutPrefix(name, wire.HeaderBlobMeta)
	return ok && isToken(rest)
}

// Fields returns the headers' names and values as they are sent, sorted by name. The values consist
// of visible ASCII characters, spaces and tabs. Those that ForeignMetadataOf alone accepts are
// converted or, if they have no valid form, left out.
func (m Metadata) Fields() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for line := range strings.Lines(string(m)) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			if value, ok := sent(name, value); ok && !yield(name, value) {
				return
			}
		}
	}
}

// sent returns a stored header's value as it is sent, and whether it is.
func sent(name, value string) (string, bool) {
	if strings.HasPrefix(name, propertyPrefix) {
		return "", false
	}
	if _, custom := MetaName(name); custom {
		return encodedWords(value), true
	}
	switch name {
	case "Cache-Control":
		if CheckCacheControl(value) != nil {
			return "no-cache", true // caches interpret it in different ways
		}
	case "Content-Disposition":
		return disposition(value), true
	}
	return value, !strings.ContainsFunc(value, isNotPrintable)
}

// MetaName returns a custom header's name without wire.HeaderBlobMeta and in lower case, as JSON
// has it. It returns false for another header.
func MetaName(header string) (string, bool) {
	name, ok := strings.CutPrefix(header, wire.HeaderBlobMeta)
	return strings.ToLower(name), ok
}
