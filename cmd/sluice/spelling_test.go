package main

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
		testenv.Equal(t, closest(word, candidates), want, "closest(%q)", word)
	}
	testenv.Equal(t, closest("word", nil), "", "of no candidates")
}
