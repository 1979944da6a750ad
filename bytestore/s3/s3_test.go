package s3_test

import (
	"os"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"go.uber.org/goleak"

	"sluice/bytestore/bytetest"
	"sluice/test/testenv"
)

func TestMain(m *testing.M) {
	// Stores must find the test servers' keys only.
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": testenv.S3AccessKey, "AWS_SECRET_ACCESS_KEY": testenv.S3SecretKey, "AWS_SESSION_TOKEN": "",
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
		"HTTP_PROXY": "", "HTTPS_PROXY": "",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	// The client's backoff would only make the tests slow.
	minio.DefaultRetryUnit, minio.DefaultRetryCap = time.Millisecond, 5*time.Millisecond
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	server := testenv.S3(t, testenv.S3Options{})
	bytetest.Run(t, harnesses(server))
}
