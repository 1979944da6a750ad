package main

import "testing"

func TestClosest(t *testing.T) {
	candidates := []string{"addr", "chunkset-price", "reads", "receiver", "serve", "ls", "rm"}
	for word, want := range map[string]string{
		"adr": "addr", "addrr": "addr", "chunkset-prize": "chunkset-price", "chunksetprice": "chunkset-price", "sreve": "serve", "read": "reads",
		"reciever": "receiver", "": "", "x": "", "xyz": "", "something": "", "l": "ls", "sl": "ls",
	} {
		if got := closest(word, candidates); got != want {
			t.Errorf("closest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := closest("word", nil); got != "" {
		t.Errorf("of no candidates: %q", got)
	}
}
