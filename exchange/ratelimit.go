package exchange

import (
	"fmt"
	"strings"

	"sluice/access"
)

// setRateLimitFields sets the headers of draft-ietf-httpapi-ratelimit-headers-10.
func setRateLimitFields(x *Exchange, a *access.Allowance) {
	limits := a.Limits()
	var policies []string
	for _, one := range []struct {
		name  string
		quota int64
		unit  string
	}{
		{"requests", limits.RequestsPerSecond, ""},
		{"bytes-in", limits.BytesInPerSecond, ";qu=\"content-bytes\""},
		{"bytes-out", limits.BytesOutPerSecond, ";qu=\"content-bytes\""},
	} {
		if one.quota > 0 {
			policies = append(policies, fmt.Sprintf("%q;q=%d;w=1%s", one.name, one.quota, one.unit))
		}
	}
	if len(policies) > 0 {
		x.Fields.Set("Ratelimit-Policy", strings.Join(policies, ", "))
	}
	if limits.RequestsPerSecond > 0 {
		left, reset := a.Requests()
		x.Fields.Set("Ratelimit", fmt.Sprintf("%q;r=%d;t=%d", "requests", left, seconds(reset)))
	}
}
