//go:build tuned

package node

import (
	"encoding/json"
	"os"
	"strings"
)

// chosen returns the values that a node has: those in the environment variable SLUICE_TEST_TUNING,
// as JSON. Only tests build it.
func chosen(t Tuning) Tuning {
	if text := os.Getenv("SLUICE_TEST_TUNING"); text != "" {
		known := json.NewDecoder(strings.NewReader(text))
		known.DisallowUnknownFields()
		if err := known.Decode(&t); err != nil {
			panic(err)
		}
	}
	return t
}
