// Package drivers runs the suites that gocloud.dev and thanos have for drivers of storage, on the
// service and with the key that the environment states. Its module also has those of distribution
// and minio-go, which need no code.
package drivers

import (
	"context"
	"net/http"
	"os"
	"reflect"
	"testing"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/s3-aws" // its own test is run
	_ "github.com/minio/minio-go/v7/pkg/encrypt"                               // its program is built
	"github.com/thanos-io/objstore"
	thanos "github.com/thanos-io/objstore/providers/s3"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/drivertest"
	"gocloud.dev/blob/s3blob"
)

// bucket is where gocloud.dev's suite stores blobs.
const bucket = "gocloud"

// harness opens drivers of a bucket.
type harness struct {
	client *s3.Client
	opts   s3blob.Options
}

// MakeDriver implements [drivertest.Harness].
func (h *harness) MakeDriver(ctx context.Context) (driver.Bucket, error) {
	return h.open(ctx, bucket)
}

// MakeDriverForNonexistentBucket implements [drivertest.Harness].
func (h *harness) MakeDriverForNonexistentBucket(ctx context.Context) (driver.Bucket, error) {
	return h.open(ctx, "nobodys-bucket")
}

// open returns the driver inside a bucket, which s3blob exports to its own tests only.
func (h *harness) open(ctx context.Context, name string) (driver.Bucket, error) {
	opened, err := s3blob.OpenBucket(ctx, h.client, name, &h.opts)
	if err != nil {
		return nil, err
	}
	inside := reflect.ValueOf(opened).Elem().FieldByName("b")
	return *(*driver.Bucket)(unsafe.Pointer(inside.UnsafeAddr())), nil
}

func (*harness) HTTPClient() *http.Client         { return http.DefaultClient }
func (*harness) SupportsCopy() bool               { return true }
func (*harness) SupportsNonSlashDelimiters() bool { return true }
func (*harness) SkipDownloadAt() bool             { return false }
func (*harness) Close()                           {}

func TestGoCloud(t *testing.T) {
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = aws.String(os.Getenv("REGION_ENDPOINT")), true
	})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]s3blob.Options{"ListObjectsV2": {}, "ListObjects": {UseLegacyList: true}} {
		t.Run(name, func(t *testing.T) {
			drivertest.RunConformanceTests(t, func(context.Context, *testing.T) (drivertest.Harness, error) {
				return &harness{client, opts}, nil
			}, nil)
		})
	}
}

// TestThanos runs the test of thanos' own s3 provider in a new bucket and below a prefix.
func TestThanos(t *testing.T) {
	t.Setenv("S3_BUCKET", "") // it makes one
	made, remove, err := thanos.NewTestBucket(t, os.Getenv("AWS_REGION"))
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	objstore.AcceptanceTest(t, made)
	objstore.AcceptanceTest(t, objstore.NewPrefixedBucket(made, "some_prefix"))
}
