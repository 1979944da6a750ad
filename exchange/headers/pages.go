package headers

import "strings"

// maxRequested is how many bytes a preflight's names of headers may have in all.
const maxRequested = 4 << 10

// Requested returns the names in the values of Access-Control-Request-Headers, in lower case, each
// once. It ignores anything that is not a name, and returns none if they exceed 4 KiB.
func Requested(values []string) (names []string) {
	list := strings.Join(values, ",")
	if len(list) > maxRequested {
		return nil
	}
	seen := map[string]bool{}
	for name := range strings.SplitSeq(strings.ToLower(list), ",") {
		if name = strings.Trim(name, " \t"); isToken(name) && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// ContentPolicy returns the Content-Security-Policy for untrusted content of a type, which must not
// run in its server's origin. A sandbox disables plugins, and with them Safari's viewer of PDF. The
// scripts in a PDF have no access to the origin, and its viewers have styles of their own.
func ContentPolicy(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	if strings.EqualFold(strings.TrimSpace(kind), "application/pdf") {
		return "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
	}
	return "sandbox"
}
