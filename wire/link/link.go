// Package link makes and verifies signed links: URLs that let who has them read a blob, read all
// blobs below a prefix, or create one blob, until they expire. The holder of a key with an S3
// secret signs a link, without a request to the service, and the service keeps nothing of it.
//
// A link is a URL for a blob with the parameter sluice-link, which is a Token:
//
//	VERSION.VERB.PREFIX.KEY.EXPIRES.SIGNATURE
//
// VERSION is 1, and VERB is "read" or "create". PREFIX is 0 if the link is for a single blob, and
// otherwise how many bytes the prefix has. KEY is the key's id, and EXPIRES are seconds since 1970.
// SIGNATURE is an HMAC-SHA256 in base64url without padding, made with the S3 secret over three
// lines, which a line feed separates:
//
//	sluice-link VERSION.VERB.PREFIX.KEY.EXPIRES
//	ACCOUNT
//	NAME
//
// ACCOUNT is spelled as in the URL, and NAME is the blob's name, or the prefix; both without
// escapes. A link names no host: it is valid at every address under which the service is reached.
package link

import (
	"errors"
	"time"
)

// Parameter is the query's parameter that has the token.
const Parameter = "sluice-link"

const (
	// MaxLife is how long a link may be valid.
	MaxLife = 7 * 24 * time.Hour
	// MaxSkew is how far the signer's clock may be ahead of the service's.
	MaxSkew = 15 * time.Minute
)

// Errors. They are wrapped; compare them with errors.Is.
var (
	// ErrInvalid means that no link can permit this.
	ErrInvalid = errors.New("the link cannot be signed")
	// ErrMalformed means that a token is none.
	ErrMalformed = errors.New("the link is malformed")
	// ErrSignature means that the link was signed with another secret, or for something else.
	ErrSignature = errors.New("the signature of the link does not match")
	// ErrExpired means that the link was valid, and has expired.
	ErrExpired = errors.New("the link has expired")
)

// Verb is the operation that a link permits.
type Verb string

// The verbs.
const (
	Read   Verb = "read"
	Create Verb = "create" // a blob that does not exist
)

// Link describes a link's permission.
type Link struct {
	Verb    Verb
	KeyID   string // names the key with the secret that signs
	Account string // as it is spelled in the URL
	// Name is a blob's name, or a prefix, which ends in "/". A prefix can only be read.
	Name    string
	Expires time.Time // in whole seconds
}
