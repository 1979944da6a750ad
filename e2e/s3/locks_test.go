package s3

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/lifecycle"

	"sluice/test/testenv"
)

// TestLocksBySDKs locks objects by the SDKs of MinIO and Amazon, and tries to remove them by each
// request that could.
// Invariant 217.
func TestLocksBySDKs(t *testing.T) {
	t.Parallel()
	h := startHosted(t, "--reads", "key")
	m, a := minioClient(t, h.Server, h.admin, h.secret), awsClient(h.Server, h.admin, h.secret)
	ctx := t.Context()
	testenv.OK(t, m.MakeBucket(ctx, "team", minio.MakeBucketOptions{ObjectLocking: true}))
	days, mode, unit := uint(1), minio.Governance, minio.Days
	testenv.OK(t, m.SetBucketObjectLockConfig(ctx, "team", &mode, &days, &unit))
	enabled, gotMode, gotDays, gotUnit, err := m.GetObjectLockConfig(ctx, "team")
	testenv.OK(t, err)
	testenv.Equal(t, fmt.Sprint(enabled, " ", *gotMode, " ", *gotDays, " ", *gotUnit), "Enabled GOVERNANCE 1 DAYS", "the setting")

	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	held := testenv.Must(m.PutObject(ctx, "team", "held", strings.NewReader("held"), 4, minio.PutObjectOptions{LegalHold: minio.LegalHoldEnabled}))(t)
	put := testenv.Must(a.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: aws.String("team"), Key: aws.String("kept"), Body: strings.NewReader("kept"), ObjectLockMode: types.ObjectLockModeCompliance, ObjectLockRetainUntilDate: &until,
	}))(t)
	head := testenv.Must(a.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: aws.String("team"), Key: aws.String("kept")}))(t)
	if head.ObjectLockMode != types.ObjectLockModeCompliance || !head.ObjectLockRetainUntilDate.Equal(until) {
		t.Errorf("the object has %+v", head)
	}
	retention := testenv.Must(a.GetObjectRetention(ctx, &awss3.GetObjectRetentionInput{Bucket: aws.String("team"), Key: aws.String("kept")}))(t)
	testenv.Equal(t, retention.Retention.RetainUntilDate.Equal(until), true, "the retention %+v", retention.Retention)
	status := testenv.Must(m.GetObjectLegalHold(ctx, "team", "held", minio.GetObjectLegalHoldOptions{VersionID: held.VersionID}))(t)
	testenv.Equal(t, *status, minio.LegalHoldEnabled, "the legal hold")

	bypass := true
	for _, by := range h.keys("write@team", "admin@team", "admin", "retain,bypass@team") {
		m, a := minioClient(t, h.Server, by.id, by.secret), awsClient(h.Server, by.id, by.secret)
		for _, o := range []struct{ key, version string }{{"held", held.VersionID}, {"kept", *put.VersionId}} {
			_, one := a.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: aws.String("team"), Key: &o.key, VersionId: &o.version, BypassGovernanceRetention: &bypass})
			all, many := a.DeleteObjects(ctx, &awss3.DeleteObjectsInput{
				Bucket: aws.String("team"), BypassGovernanceRetention: &bypass,
				Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: &o.key, VersionId: &o.version}}},
			})
			if codeOf(one) != "AccessDenied" || codeOf(many) != "AccessDenied" && (many != nil || len(all.Errors) != 1 || aws.ToString(all.Errors[0].Code) != "AccessDenied") {
				t.Errorf("%s removes %s: %v, %v", by.grants, o.key, one, many)
			}
		}
		soon, compliance, governance := time.Now().Add(time.Minute), minio.Compliance, minio.Governance
		for _, shorter := range []minio.PutObjectRetentionOptions{
			{Mode: &compliance, RetainUntilDate: &soon, GovernanceBypass: true, VersionID: *put.VersionId},
			{Mode: &governance, RetainUntilDate: &until, GovernanceBypass: true, VersionID: *put.VersionId},
			{GovernanceBypass: true, VersionID: *put.VersionId},
		} {
			testenv.Equal(t, codeOf(m.PutObjectRetention(ctx, "team", "kept", shorter)), "AccessDenied", "%s shortens a retention", by.grants)
		}
		code := codeOf(m.SuspendVersioning(ctx, "team"))
		testenv.Equal(t, code == "InvalidBucketState" || code == "AccessDenied", true, "%s suspends versioning: %s", by.grants, code)
	}
	for key, version := range map[string]string{"held": held.VersionID, "kept": *put.VersionId} {
		o := testenv.Must(m.GetObject(ctx, "team", key, minio.GetObjectOptions{VersionID: version}))(t)
		testenv.Equal(t, string(testenv.Must(io.ReadAll(o))(t)), key, "the locked object")
	}
	off := minio.LegalHoldDisabled
	testenv.OK(t, m.PutObjectLegalHold(ctx, "team", "held", minio.PutObjectLegalHoldOptions{VersionID: held.VersionID, Status: &off}))
	testenv.Equal(t, codeOf(m.RemoveObject(ctx, "team", "held", minio.RemoveObjectOptions{VersionID: held.VersionID})), "AccessDenied", "the default retention")
	testenv.OK(t, m.RemoveObject(ctx, "team", "held", minio.RemoveObjectOptions{VersionID: held.VersionID, GovernanceBypass: true}))
}

// keyOf is a key with an S3 secret, and its grants.
type keyOf struct{ grants, id, secret string }

// keys creates keys with one grant each.
func (h *hosted) keys(grants ...string) (list []keyOf) {
	for _, grant := range grants {
		if !strings.Contains(grant, "@") {
			grant += "@*"
		}
		id, secret := h.key("create", "--grant", grant)
		list = append(list, keyOf{grant, id, secret})
	}
	return list
}

// TestLifecycleBySDKs sets rules by the SDKs in both forms, reads them back, and sees when an
// object expires.
// Invariant 218.
func TestLifecycleBySDKs(t *testing.T) {
	t.Parallel()
	h := startHosted(t, "--reads", "key")
	m, a := minioClient(t, h.Server, h.admin, h.secret), awsClient(h.Server, h.admin, h.secret)
	ctx := t.Context()
	testenv.OK(t, m.MakeBucket(ctx, "team", minio.MakeBucketOptions{}))
	c := lifecycle.NewConfiguration()
	c.Rules = []lifecycle.Rule{
		{ID: "logs", Status: "Enabled", RuleFilter: lifecycle.Filter{Prefix: "logs/"}, Expiration: lifecycle.Expiration{Days: 30}},
		{ID: "old", Status: "Disabled", Prefix: "old/", NoncurrentVersionExpiration: lifecycle.NoncurrentVersionExpiration{NoncurrentDays: 3, NewerNoncurrentVersions: 2}},
		{ID: "tags", Status: "Enabled", RuleFilter: lifecycle.Filter{And: lifecycle.And{Prefix: "tmp/", Tags: []lifecycle.Tag{{Key: "k", Value: "v"}}, ObjectSizeGreaterThan: 9}},
			Expiration: lifecycle.Expiration{Days: 1}},
	}
	testenv.OK(t, m.SetBucketLifecycle(ctx, "team", c))
	got := testenv.Must(m.GetBucketLifecycle(ctx, "team"))(t)
	wanted, read := new(bytes.Buffer), new(bytes.Buffer)
	for text, rules := range map[*bytes.Buffer][]lifecycle.Rule{wanted: c.Rules, read: got.Rules} {
		for _, r := range rules {
			fmt.Fprintf(text, "%s %s %q %+v %d %+v\n", r.ID, r.Status, r.Prefix, r.RuleFilter, r.Expiration.Days, r.NoncurrentVersionExpiration)
		}
	}
	names := regexp.MustCompile(`XMLName:\{[^}]*\} ?`)
	testenv.Equal(t, names.ReplaceAllString(read.String(), ""), names.ReplaceAllString(wanted.String(), ""), "the rules that are read")

	put := testenv.Must(a.PutObject(ctx, &awss3.PutObjectInput{Bucket: aws.String("team"), Key: aws.String("logs/a"), Body: strings.NewReader("x")}))(t)
	testenv.Equal(t, strings.HasSuffix(aws.ToString(put.Expiration), `00:00:00 GMT", rule-id="logs"`), true, "the expiration %s", aws.ToString(put.Expiration))
	_, err := a.PutBucketLifecycleConfiguration(ctx, &awss3.PutBucketLifecycleConfigurationInput{Bucket: aws.String("team"), LifecycleConfiguration: &types.BucketLifecycleConfiguration{
		Rules: []types.LifecycleRule{{Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{}, Transitions: []types.Transition{{Days: aws.Int32(1), StorageClass: "GLACIER"}}}},
	}})
	testenv.Equal(t, codeOf(err), "NotImplemented", "a transition: %v", err)
	testenv.OK(t, m.SetBucketLifecycle(ctx, "team", lifecycle.NewConfiguration())) // removes them
	_, err = m.GetBucketLifecycle(ctx, "team")
	testenv.Equal(t, codeOf(err), "NoSuchLifecycleConfiguration", "no rules")
}

// TestResticSurvivesItsKeys: with locks that new objects get, a backup can be restored after the
// holder of any key has removed all that they can. Invariant 217.
func TestResticSurvivesItsKeys(t *testing.T) {
	t.Parallel()
	h := startHosted(t, "--reads", "key")
	c := newClient(t, h.Server)
	c.environ = append(c.environ, "AWS_ACCESS_KEY_ID="+h.admin, "AWS_SECRET_ACCESS_KEY="+h.secret)
	c.write("tree/1", bytesOf(300_000, 1))
	c.write("tree/deep/2", "two")
	c.sh(`aws s3api create-bucket --bucket team --object-lock-enabled-for-bucket >made
		aws s3api put-object-lock-configuration --bucket team --object-lock-configuration 'ObjectLockEnabled=Enabled,Rule={DefaultRetention={Mode=COMPLIANCE,Days=1}}'
		restic -q init
		restic -q backup tree`)
	got := c.sh(`remove() {
			aws s3api delete-objects --bucket team --bypass-governance-retention --query "$2" --output text \
				--delete "$(aws s3api list-object-versions --bucket team --query "{Objects: $1[].{Key: Key, VersionId: VersionId}}")"
		}
		aws s3 rm --quiet --recursive s3://team
		remove Versions '[length(Deleted || ` + "`[]`" + `), length(Errors) > ` + "`4`" + `, Errors[?Code!=` + "`AccessDenied`" + `]]'
		! aws s3api put-bucket-versioning --bucket team --versioning-configuration Status=Suspended 2>errors; grep -o InvalidBucketState errors
		! aws s3 rb s3://team 2>errors; grep -o BucketNotEmpty errors
		! restic -q snapshots 2>errors; grep -c "unable to open config" errors
		remove DeleteMarkers 'Errors'
		restic -q unlock --remove-all
		restic -q check --read-data
		restic -q restore latest --target back && diff -r tree back/tree && echo restored`)
	testenv.Equal(t, strings.Join(strings.Fields(got), " "), "0 True InvalidBucketState BucketNotEmpty 1 None restored", "the output of the clients")
}
