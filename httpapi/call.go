package httpapi

import (
	"time"

	"sluice/access"
	"sluice/exchange"
	"sluice/httpapi/internal/router"
	"sluice/metastore"
)

// call is an exchange with the interface.
type call struct {
	exchange.Exchange

	params    router.Params       // the route's
	target    metastore.BlobName  // the result of blobTarget, once it had no error
	rules     access.AccountRules // for a listing
	place     access.Rule         // the rule for the blob that a read names, or a copy
	readsFree bool                // the caller has a key that reads without paying
	linked    bool                // the caller has a link
	linkEnds  time.Time           // when the link expires
}
