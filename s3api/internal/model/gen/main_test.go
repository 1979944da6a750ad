package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sluice/test/testenv"
)

// TestOperationsAreCurrent checks that operations.go has the operations that the SDK in go.mod has:
// an operation that a newer version adds is served or refused on purpose.
func TestOperationsAreCurrent(t *testing.T) {
	root := testenv.Must(testenv.Root())(t)
	dir := filepath.Join(root, "s3api", "internal", "model")
	want := testenv.Must(generate(dir))(t)
	got := testenv.Must(os.ReadFile(filepath.Join(dir, "operations.go")))(t)
	if !bytes.Equal(got, want) {
		t.Error("s3api/internal/model/operations.go is not current: run go generate ./s3api/internal/model, and decide on the operations that it adds")
	}
	for _, operation := range []string{"PutObjectAnnotation", "GetBucketAbac", "ListObjectsV2"} {
		if !bytes.Contains(got, []byte(`{Name: "`+operation+`", `)) {
			t.Errorf("%s is missing", operation)
		}
	}
}
