package httpapi

import (
	"sluice/exchange"
	"sluice/httpapi/internal/router"
)

// call is an exchange with the interface.
type call struct {
	exchange.Exchange

	params    router.Params // the route's
	readsFree bool          // the caller has a key that reads without paying
	linked    bool          // the caller has a link
}
