package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sluice/internal/testenv"
)

// TestStoresAreCurrent checks that stores.go has what the contracts have.
func TestStoresAreCurrent(t *testing.T) {
	root, err := testenv.Root()
	testenv.OK(t, err)
	want, err := generate(root)
	testenv.OK(t, err)
	got, err := os.ReadFile(filepath.Join(root, "internal", "tracing", "stores.go"))
	testenv.OK(t, err)
	if !bytes.Equal(got, want) {
		t.Error("internal/tracing/stores.go is not current: run go generate ./internal/tracing")
	}
}
