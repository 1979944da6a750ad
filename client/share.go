package client

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"sluice/wire/link"
)

// MaxShare is how long a Link can be valid.
const MaxShare = link.MaxLife

// ShareOptions are options for Share. KeyID and Secret are required.
type ShareOptions struct {
	KeyID  string // names the key that signs
	Secret string // the S3 secret of this key, which sluice key create --s3 prints

	// For is how long the link is valid. 0 means MaxShare.
	For time.Duration

	// Create makes a link with which a blob can be created that does not exist. Without it, a link
	// can be used to read.
	Create bool
}

// Link lets whoever has it use a hosted service without a key.
type Link struct {
	// URL is the blob's. A prefix's becomes a blob's with the rest of the name, escaped, before the
	// question mark.
	URL     string
	List    string    // URL that lists the blobs below a prefix; "" for a blob
	Expires time.Time // in whole seconds
}

// Share returns a link for a blob or, if the name ends in a slash, for all blobs below this prefix,
// to read them. It sends no request, and does not check that the key has the link's permission. A
// link is valid until it expires, its key is revoked or expires, or the secret is replaced. Share
// returns ErrInvalid if there is no such link.
func (c *Client) Share(account, name string, o ShareOptions) (Link, error) {
	if o.For == 0 {
		o.For = MaxShare
	}
	if o.For < time.Second || o.For > MaxShare {
		return Link{}, fmt.Errorf("client: %w: a link can be valid for a second to %v", ErrInvalid, MaxShare)
	}
	shared, list, err := c.Address(account, name)
	if err != nil {
		return Link{}, err
	}
	of := link.Link{Verb: link.Read, KeyID: o.KeyID, Account: account, Name: name, Expires: time.Now().Add(o.For).Truncate(time.Second)}
	if o.Create {
		of.Verb = link.Create
	}
	token, err := link.Sign(of, o.Secret)
	if err != nil {
		return Link{}, fmt.Errorf("client: %w: %w", ErrInvalid, err)
	}
	parameter := link.Parameter + "=" + token.String()
	made := Link{URL: shared + "?" + parameter, Expires: of.Expires}
	if token.Below() {
		made.List = list + "&" + parameter
	}
	return made, nil
}

// Address returns a blob's URL without a signature, or the one of a prefix that ends in a slash, to
// which a name's rest is appended, and the URL that lists the blobs below the prefix.
func (c *Client) Address(account, name string) (address, list string, err error) {
	path, err := blobPath(account, name)
	if err != nil {
		return "", "", err
	}
	base := strings.TrimSuffix(c.base.String(), "/")
	if strings.HasSuffix(name, "/") {
		list = base + "/v1/blobs/" + url.PathEscape(account) + "?prefix=" + url.QueryEscape(name)
	}
	return base + path, list, nil
}
