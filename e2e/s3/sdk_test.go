package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/minio/minio-go/v7"
	miniocredentials "github.com/minio/minio-go/v7/pkg/credentials"

	"sluice/e2e"
	"sluice/test/testenv"
)

// hosted is a hosted service over a data folder, and the flags for its command line.
type hosted struct {
	*e2e.Server
	t           *testing.T
	file, admin string // the master key's file; the id of the first key
	secret      string // the first key's
}

// startHosted starts a hosted service and creates a key with an S3 secret that may do everything.
func startHosted(t *testing.T, flags ...string) *hosted {
	t.Helper()
	dir := testenv.MemoryDir(t)
	h := &hosted{t: t, file: filepath.Join(dir, "s3.key")}
	testenv.OK(t, os.WriteFile(h.file, []byte(strings.Repeat("5a", 32)+"\n"), 0o600))
	data := filepath.Join(dir, "data")
	h.Server = e2e.Start(t, e2e.Options{Data: data, Flags: append([]string{
		"--profile", "hosted", "--base-path", "/sluice", "--external-url", "http://127.0.0.1/sluice", "--receiver", "0x1", "--admin-addr", "off", "--drain-wait", "0s",
		"--address-limits", "requests-per-second=unlimited", "--s3-addr", "localhost:0", "--s3-secret-key-file", h.file,
	}, flags...)})
	h.admin, h.secret = h.key("create", "--scopes", "admin", "--all-accounts", "--requests-per-second", "unlimited")
	return h
}

// key runs a key command that gives a key an S3 secret, and returns its id and the secret.
func (h *hosted) key(command string, args ...string) (id, secret string) {
	h.t.Helper()
	return e2e.S3Key(h.t, h.Data, h.file, command, args...)
}

// minioClient returns a client of MinIO's SDK.
func minioClient(t *testing.T, s *e2e.Server, id, secret string) *minio.Client {
	t.Helper()
	return testenv.Must(minio.New(strings.TrimPrefix(s.S3, "http://"), &minio.Options{
		Creds: miniocredentials.NewStaticV4(id, secret, ""), Region: "us-east-1", BucketLookup: minio.BucketLookupPath, TrailingHeaders: true,
	}))(t)
}

// awsClient returns a client of Amazon's SDK for Go.
func awsClient(s *e2e.Server, id, secret string, more ...func(*awss3.Options)) *awss3.Client {
	return awss3.New(awss3.Options{
		BaseEndpoint: aws.String(s.S3), Region: "eu-north-1", UsePathStyle: true, RetryMaxAttempts: 3,
		Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
	}, more...)
}

// codeOf returns an error response's code.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return minio.ToErrorResponse(err).Code
}

// TestMinio uses MinIO's SDK with signed chunks, for a known size and an unknown one.
// Invariant 188.
func TestMinio(t *testing.T) {
	t.Parallel()
	h := startHosted(t, "--reads", "key")
	c := minioClient(t, h.Server, h.admin, h.secret)
	ctx := t.Context()
	big := e2e.Content(4, 18<<20)
	for name, size := range map[string]int64{"known": int64(len(big)), "unknown": -1} {
		info := testenv.Must(c.PutObject(ctx, "team", name, bytes.NewReader(big), size, minio.PutObjectOptions{
			PartSize: 5 << 20, UserMetadata: map[string]string{"Color": "blue"}, ContentType: "x/y",
		}))(t)
		o := testenv.Must(c.GetObject(ctx, "team", name, minio.GetObjectOptions{}))(t)
		got := testenv.Must(io.ReadAll(o))(t)
		stat := testenv.Must(o.Stat())(t)
		if !bytes.Equal(got, big) || stat.ETag != info.ETag || stat.UserMetadata["Color"] != "blue" || stat.ContentType != "x/y" {
			t.Errorf("%s: %d bytes, %+v", name, len(got), stat)
		}
	}
	testenv.Must(c.PutObject(ctx, "team", "empty", strings.NewReader(""), -1, minio.PutObjectOptions{}))(t)
	testenv.Must(c.ComposeObject(ctx, minio.CopyDestOptions{Bucket: "team", Object: "composed"},
		minio.CopySrcOptions{Bucket: "team", Object: "known"}, minio.CopySrcOptions{Bucket: "team", Object: "unknown", MatchRange: true, Start: 5, End: 9}))(t)
	composed := testenv.Must(c.StatObject(ctx, "team", "composed", minio.StatObjectOptions{}))(t)
	testenv.Equal(t, composed.Size, int64(len(big))+5, "a composed object's size")
	var keys []string
	for o := range c.ListObjects(ctx, "team", minio.ListObjectsOptions{Recursive: true, MaxKeys: 1}) {
		testenv.OK(t, o.Err)
		keys = append(keys, o.Key)
	}
	testenv.Equal(t, strings.Join(keys, " "), "composed empty known unknown", "the keys")
}

// TestAmazonForGo uses Amazon's SDK and its transfer manager, which send a checksum in the trailer
// of an unsigned body by default.
// Invariant 183.
func TestAmazonForGo(t *testing.T) {
	t.Parallel()
	h := startHosted(t, "--reads", "key")
	c := awsClient(h.Server, h.admin, h.secret)
	ctx := t.Context()
	big := e2e.Content(5, 17<<20)
	transfers := transfermanager.New(c, func(o *transfermanager.Options) { o.PartSizeBytes, o.MultipartUploadThreshold = 5<<20, 5<<20 })
	testenv.Must(transfers.UploadObject(ctx, &transfermanager.UploadObjectInput{
		Bucket: aws.String("team"), Key: aws.String("big"), Body: struct{ io.Reader }{bytes.NewReader(big)},
	}))(t)
	file := testenv.Must(os.Create(filepath.Join(t.TempDir(), "big")))(t)
	testenv.Must(transfers.DownloadObject(ctx, &transfermanager.DownloadObjectInput{Bucket: aws.String("team"), Key: aws.String("big"), WriterAt: file}))(t)
	testenv.OK(t, file.Close())
	got := testenv.Must(os.ReadFile(file.Name()))(t)
	testenv.Equal(t, bytes.Equal(got, big), true, "the upload is downloaded")
	// Those that the SDK computes.
	for _, a := range []types.ChecksumAlgorithm{"CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"} {
		put, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: aws.String("team"), Key: aws.String("checked"), Body: strings.NewReader("x"), ChecksumAlgorithm: a})
		testenv.OK(t, err)
		if aws.ToString(put.ETag) == "" || put.ChecksumType != types.ChecksumTypeFullObject {
			t.Errorf("%s: %+v", a, put)
		}
	}
	_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: aws.String("team"), Key: aws.String("wrong"), Body: strings.NewReader("x"), ChecksumCRC32: aws.String("AAAAAA==")})
	testenv.Equal(t, codeOf(err), "BadDigest", "a wrong checksum: %v", err)
	attributes := testenv.Must(c.GetObjectAttributes(ctx, &awss3.GetObjectAttributesInput{
		Bucket: aws.String("team"), Key: aws.String("big"), ObjectAttributes: []types.ObjectAttributes{types.ObjectAttributesObjectParts, types.ObjectAttributesObjectSize},
	}))(t)
	if aws.ToInt64(attributes.ObjectSize) != int64(len(big)) || len(attributes.ObjectParts.Parts) != 4 {
		t.Errorf("the attributes are %+v", attributes)
	}
	get := testenv.Must(awss3.NewPresignClient(c).PresignGetObject(ctx, &awss3.GetObjectInput{Bucket: aws.String("team"), Key: aws.String("checked")}))(t)
	r := testenv.Must(http.NewRequestWithContext(ctx, http.MethodGet, get.URL, nil))(t)
	res := testenv.Must(http.DefaultClient.Do(r))(t)
	body := testenv.Must(io.ReadAll(res.Body))(t)
	testenv.OK(t, res.Body.Close())
	testenv.Equal(t, string(body), "x", "the object that a presigned URL reads")
}

// TestCredentials: a key's scopes, accounts, revocation and new secrets hold for requests that it
// signs.
// Invariant 187.
func TestCredentials(t *testing.T) {
	t.Parallel()
	h := startHosted(t, "--reads", "key")
	id, secret := h.key("create", "--scopes", "read,write", "--accounts", "team")
	put := func(c *awss3.Client, bucket string) string {
		ctx, cancel := context.WithTimeout(t.Context(), e2e.Patience)
		defer cancel()
		_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String("a"), Body: strings.NewReader("x")})
		return codeOf(err)
	}
	c := awsClient(h.Server, id, secret)
	testenv.Equal(t, put(c, "team"), "", "the key's account")
	testenv.Equal(t, put(c, "other"), "AccessDenied", "another account")
	testenv.Equal(t, put(awsClient(h.Server, id, secret+"x"), "team"), "SignatureDoesNotMatch", "a wrong secret")
	testenv.Equal(t, put(awsClient(h.Server, "aaaaaaaaaaaaaaaa", secret), "team"), "InvalidAccessKeyId", "an unknown key")
	await := func(want string, try func() string) {
		t.Helper()
		got := ""
		for deadline := time.Now().Add(e2e.Patience); time.Now().Before(deadline); {
			if got = try(); got == want {
				return
			}
			time.Sleep(50 * time.Millisecond) // nodes look each second
		}
		t.Errorf("got %q, want %q", got, want)
	}
	_, renewed := h.key("update", id)
	await("SignatureDoesNotMatch", func() string { return put(c, "team") })
	c = awsClient(h.Server, id, renewed)
	testenv.Equal(t, put(c, "team"), "", "the new secret")
	testenv.OK(t, exec.CommandContext(t.Context(), e2e.Sluice, "key", "revoke", "--data", h.Data, id).Run())
	await("InvalidAccessKeyId", func() string { return put(c, "team") })
}
