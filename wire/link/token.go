package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	version = "1"
	// maxKeyID is the greatest length that a key's id has.
	maxKeyID = 64
)

// encoding accepts one spelling of each signature only.
var encoding = base64.RawURLEncoding.Strict()

// Token is a link's parameter. It is immutable.
type Token struct {
	head      string // everything that precedes the signature's dot
	verb      Verb
	prefix    int // its length in bytes; 0: the link is for one blob
	keyID     string
	expires   int64 // in seconds since 1970
	signature [sha256.Size]byte
}

// Sign returns a link's token. It returns ErrInvalid if there is no such link. It does not
// check whether the account and the name are valid, nor for how long the link is.
func Sign(l Link, secret string) (*Token, error) {
	t := &Token{verb: l.Verb, keyID: l.KeyID, expires: l.Expires.Unix()}
	below := strings.HasSuffix(l.Name, "/")
	if below {
		t.prefix = len(l.Name)
	}
	switch {
	case !isKeyID(l.KeyID):
		return nil, fmt.Errorf("%w: the id of the key is not one", ErrInvalid)
	case secret == "":
		return nil, fmt.Errorf("%w: the secret is empty", ErrInvalid)
	case l.Verb != Read && l.Verb != Create:
		return nil, fmt.Errorf("%w: %q is no verb", ErrInvalid, l.Verb)
	case l.Verb == Create && below:
		return nil, fmt.Errorf("%w: a single blob can be created, and not a prefix", ErrInvalid)
	case !isLine(l.Account) || !isLine(l.Name):
		return nil, fmt.Errorf("%w: the account or the name is empty or has control characters", ErrInvalid)
	case t.expires <= 0:
		return nil, fmt.Errorf("%w: it has no expiry", ErrInvalid)
	}
	t.head = strings.Join([]string{version, string(t.verb), strconv.Itoa(t.prefix), t.keyID, strconv.FormatInt(t.expires, 10)}, ".")
	copy(t.signature[:], t.mac(secret, l.Account, l.Name))
	return t, nil
}

// Parse parses a token. It accepts the spelling of String only, and returns ErrMalformed otherwise.
func Parse(text string) (*Token, error) {
	fields := strings.Split(text, ".")
	if len(fields) != 6 {
		return nil, fmt.Errorf("%w: it must have six fields", ErrMalformed)
	}
	if fields[0] != version {
		return nil, fmt.Errorf("%w: its version is not %s", ErrMalformed, version)
	}
	t := &Token{head: text[:len(text)-len(fields[5])-1], verb: Verb(fields[1]), keyID: fields[3]}
	prefix, prefixFine := parseNumber(fields[2])
	expires, expiresFine := parseNumber(fields[4])
	n, err := encoding.Decode(t.signature[:], []byte(fields[5][:min(len(fields[5]), encoding.EncodedLen(sha256.Size))]))
	switch {
	case t.verb != Read && t.verb != Create:
		return nil, fmt.Errorf("%w: its verb must be %s or %s", ErrMalformed, Read, Create)
	case !prefixFine || prefix > math.MaxInt32 || t.verb == Create && prefix != 0:
		return nil, fmt.Errorf("%w: its prefix has no such length", ErrMalformed)
	case !isKeyID(t.keyID):
		return nil, fmt.Errorf("%w: its key is no id", ErrMalformed)
	case !expiresFine || expires == 0:
		return nil, fmt.Errorf("%w: its expiry is not in seconds", ErrMalformed)
	case err != nil || n != sha256.Size || len(fields[5]) != encoding.EncodedLen(sha256.Size):
		return nil, fmt.Errorf("%w: its signature is none", ErrMalformed)
	}
	t.prefix, t.expires = int(prefix), expires
	return t, nil
}

// String returns the token's text. In a URL it needs no escape.
func (t *Token) String() string { return t.head + "." + encoding.EncodeToString(t.signature[:]) }

// Verb returns the operation that the link permits.
func (t *Token) Verb() Verb { return t.verb }

// KeyID returns which key the link names as its signer's.
func (t *Token) KeyID() string { return t.keyID }

// Expires returns when the link ceases to be valid.
func (t *Token) Expires() time.Time { return time.Unix(t.expires, 0) }

// Below reports whether the link is for all blobs below a prefix.
func (t *Token) Below() bool { return t.prefix > 0 }

// Verify returns nil if the link was signed with the secret for a blob with this account and name,
// and is valid now. For a listing, the name is its prefix. It returns ErrSignature, or ErrExpired.
// A link that is valid for longer than MaxLife is malformed.
func (t *Token) Verify(secret, account, name string, now time.Time) error {
	if t.prefix > len(name) || t.prefix > 0 && name[t.prefix-1] != '/' {
		return fmt.Errorf("%w: the name is not below its prefix", ErrSignature)
	}
	if t.prefix > 0 {
		name = name[:t.prefix]
	} else if strings.HasSuffix(name, "/") {
		return fmt.Errorf("%w: it is for a single blob", ErrSignature)
	}
	if !isLine(account) || !isLine(name) || !hmac.Equal(t.signature[:], t.mac(secret, account, name)) {
		return fmt.Errorf("%w: it was signed with another secret, or for another blob", ErrSignature)
	}
	switch expires := time.Unix(t.expires, 0); {
	case !now.Before(expires):
		return ErrExpired
	case expires.Sub(now) > MaxLife+MaxSkew:
		return fmt.Errorf("%w: it is valid for more than %d days", ErrMalformed, MaxLife/(24*time.Hour))
	}
	return nil
}

// mac returns the signature for the account and the name or prefix.
func (t *Token) mac(secret, account, name string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte("sluice-link " + t.head + "\n" + account + "\n" + name)) // a hash returns no error
	return mac.Sum(nil)
}

// parseNumber parses a decimal number without sign and leading zeros.
func parseNumber(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// isLine reports whether a text can be a line in the signed text.
func isLine(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func isKeyID(text string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}
	return text != "" && len(text) <= maxKeyID && !strings.ContainsFunc(text, odd)
}
