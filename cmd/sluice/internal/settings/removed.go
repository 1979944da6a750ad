package settings

import (
	"fmt"
	"strings"

	"sluice/access/keys"
)

// Removed are settings of earlier versions, each with the rule that holds instead of it.
var Removed = func() map[string]string {
	const (
		chain     = "--chain id=N,asset=ADDRESS,module=ADDRESS names a private chain"
		caches    = "--memory-cache is the size of the one cache in memory"
		collected = "--unsettled-limit is what a channel may owe: it begins with a hundredth of that, and is collected at half of it, or within 24 hours"
	)
	removed := map[string]string{
		"asset": chain, "micropayment-module": chain, "chain-id": chain,
		"blob-cache": caches, "object-cache": caches,
		"starting-limit": collected, "settle-at": collected, "settle-within": collected,
		"settle-parallel": "256 submissions are sent concurrently",
		"max-settle-gas":  "a micropayment may cost a coin of gas (10^8 of the smallest), and what --coin-price allows",
		"channel-refresh": "a channel is read again after 30 seconds",
		"max-connections": "as many connections are served as the process may have open files for (LimitNOFILE of systemd, ulimit -n), at most 20000",
		"session-ttl":     "a session lives for 30 days",
		"channel-ttl":     "a channel lives for 90 days, unless the request chooses another time",
		"purge-every":     "what has expired is removed every minute",
		"sweep-every":     "orphans are searched for every six hours",
		"resume-settling": "sluice resume settling resumes it", "allow-large-sweep": "sluice resume sweep permits a large sweep once",
		"fault-seed": "the seed is 1; PUT /v1/local/faults sets another one",
	}
	for _, k := range keys.LimitKinds {
		for _, whose := range []string{"key", "address"} {
			removed[whose+"-"+k.Flag()] = "--" + whose + "-limits " + k.Flag() + "=" + limitPlaceholder(k) + " sets it"
		}
	}
	return removed
}()

// RemovedVariables returns an error for each environment variable of a setting that was removed.
func RemovedVariables(environment []string) (errs []error) {
	for _, pair := range environment {
		variable, _, _ := strings.Cut(pair, "=")
		name, ours := strings.CutPrefix(variable, "SLUICE_")
		if held := Removed[strings.ReplaceAll(strings.ToLower(name), "_", "-")]; ours && held != "" {
			errs = append(errs, fmt.Errorf("%s was removed: %s", variable, held))
		}
	}
	return errs
}
