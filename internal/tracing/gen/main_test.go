package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sluice/test/testenv"
)

// TestStoresAreCurrent checks that stores.go has the contracts' methods.
func TestStoresAreCurrent(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	want := testenv.Must(generate(root))(t)
	got := testenv.Must(os.ReadFile(filepath.Join(root, "internal", "tracing", "stores.go")))(t)
	if !bytes.Equal(got, want) {
		t.Error("internal/tracing/stores.go is not current: run go generate ./internal/tracing")
	}
}
