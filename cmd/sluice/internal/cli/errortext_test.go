package cli

import (
	"testing"

	"sluice/test/testenv"
)

func TestClosest(t *testing.T) {
	candidates := []string{"addr", "chunkset-price", "reads", "receiver", "serve", "ls", "rm"}
	for word, want := range map[string]string{
		"adr": "addr", "addrr": "addr", "chunkset-prize": "chunkset-price", "chunksetprice": "chunkset-price", "sreve": "serve", "read": "reads",
		"reciever": "receiver", "": "", "x": "", "xyz": "", "something": "", "l": "ls", "sl": "ls",
	} {
		testenv.Equal(t, Closest(word, candidates), want, "closest(%q)", word)
	}
	testenv.Equal(t, Closest("word", nil), "", "of no candidates")
}
