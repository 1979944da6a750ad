package commands

import (
	"errors"
	"os"
	"testing"

	"sluice/e2e"
	"sluice/test/testenv"
)

// TestMain gives every command the keys of the tests' object stores, as its user's environment
// does.
func TestMain(m *testing.M) {
	if err := errors.Join(os.Setenv("AWS_ACCESS_KEY_ID", testenv.S3AccessKey), os.Setenv("AWS_SECRET_ACCESS_KEY", testenv.S3SecretKey)); err != nil {
		panic(err)
	}
	e2e.Main(m)
}
