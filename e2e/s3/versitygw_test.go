package s3

import (
	"bufio"
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"sluice/test/testenv"
)

// expectedFile lists the tests of versitygw that fail, in groups with the reason: a feature that
// docs/s3.md refuses or states as different. With each test stands answerOf's result.
const expectedFile = "testdata/versitygw.txt"

// versioned are the tests of versions.
var versioned = regexp.MustCompile(`^(Versioning|ListObjectVersions|GetBucketVersioning|PutBucketVersioning)_`)

// alone are the tests that must not see the uploads, the versioning, or the public access block,
// that earlier tests have left, or that leave locks: an account keeps them when its bucket is
// deleted. The program lists its tests in another order each time.
var alone = regexp.MustCompile(`^(ListMultipartUploads|AbortMultipartUpload|ListBuckets|DeleteObjects_iam)_|_missing_bucket_lock$|^GetPublicAccessBlock_|^UnsignedStreamingPayloadTrailer_not_allowed$|` + versioned.String())

// TestVersityGW runs versitygw's tests for gateways like itself, which compare status and code of
// errors (testdata/statusandcode.go). It compares the tests that fail, and the service's answers in
// them, with the list.
func TestVersityGW(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.VersityGW)
	program := testenv.Must(testenv.VersityGWPath())(t)
	expected, foreign := expectedFailures(t, expectedFile)
	var names []string
	for _, name := range versityTests(t, program) {
		if !slices.ContainsFunc(foreign, func(kind *regexp.Regexp) bool { return kind.MatchString(name) }) {
			names = append(names, name)
		}
	}
	if len(names) < 400 {
		t.Fatalf("there are %d tests", len(names))
	}
	failures := runVersityTests(t, program, names)
	for _, name := range slices.Sorted(maps.Keys(failures)) {
		if got := answerOf(failures[name]); got != expected[name] {
			t.Errorf("%s is answered %q, and the list has %q: %s", name, got, expected[name], failures[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(expected)) {
		switch {
		case !slices.Contains(names, name):
			t.Errorf("%s lists %s, which is not run", expectedFile, name)
		case failures[name] == "":
			t.Errorf("%s lists %s, which passes", expectedFile, name)
		}
	}
}

// expectedFailures returns a list's answers by test, and expressions that match the tests that are
// not run. A line that begins with a slash has a regular expression and the reason, a line with = a
// group's reason, and any other a test and the answer.
func expectedFailures(t *testing.T, file string) (answers map[string]string, foreign []*regexp.Regexp) {
	t.Helper()
	answers = map[string]string{}
	for line := range strings.Lines(string(testenv.Must(os.ReadFile(file))(t))) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "= ") {
			continue
		}
		name, rest, found := strings.Cut(line, " ")
		kind, isKind := strings.CutPrefix(name, "/")
		switch {
		case !found || answers[name] != "":
			t.Errorf("%s: %q has no answer, or is there twice", file, line)
		case isKind:
			foreign = append(foreign, regexp.MustCompile(kind))
		default:
			answers[name] = rest
		}
	}
	return answers, foreign
}

// answerForms are the forms in which a failure states the answer: status and code, or of a response
// without a body the code that the SDK makes of the status.
var answerForms = []*regexp.Regexp{
	regexp.MustCompile(`instead got (\d{3} \w+)$`),
	regexp.MustCompile(`StatusCode: (\d{3}), RequestID: \w*,(?: HostID: \w*,)? (?:api error )?(\w+):`),
	regexp.MustCompile(`expected [A-Z]\w+, instead got ([A-Z]\w+)$`),
	regexp.MustCompile(`status code.* instead got (\d{3})`),
	regexp.MustCompile(`(exit status 1)$`), // of the command that manages versitygw's users
}

// answerOf returns the status and code that the service answers in a test that fails, or ok if it
// answers with success.
func answerOf(failure string) string {
	for _, form := range answerForms {
		if found := form.FindStringSubmatch(failure); found != nil {
			return strings.Join(found[1:], " ")
		}
	}
	return "ok"
}

// versityTests returns the names of all tests.
func versityTests(t *testing.T, program string) (names []string) {
	t.Helper()
	help := testenv.Must(exec.CommandContext(t.Context(), program, "test", "--help").Output())(t)
	for _, found := range regexp.MustCompile(`(?m)^ +(\S+) +Runs \S+ integration test$`).FindAllSubmatch(help, -1) {
		names = append(names, string(found[1]))
	}
	return names
}

// runVersityTests runs tests, each in a process of its own because a failure can end it, on as many
// services as run at once, because the tests share the names of their buckets. It returns the
// failing tests' messages.
func runVersityTests(t *testing.T, program string, names []string) map[string]string {
	t.Helper()
	const atOnce = 4
	failures := map[string]string{}
	var mu sync.Mutex
	var workers sync.WaitGroup
	for worker := range atOnce {
		shared := startHosted(t, "--reads", "key", "--log-requests", "none")
		workers.Go(func() {
			for i := worker; i < len(names); i += atOnce {
				failure := ""
				if alone.MatchString(names[i]) {
					t.Run(names[i], func(t *testing.T) { // at its end the service ends
						failure = versityTest(t, program, startHosted(t, "--reads", "key", "--log-requests", "none"), names[i])
					})
				} else {
					failure = versityTest(t, program, shared, names[i])
					shared.clear()
				}
				if failure != "" {
					mu.Lock()
					failures[names[i]] = failure
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return failures
}

// clear deletes all objects and buckets: a test that fails leaves some, and other tests have the
// same buckets.
func (h *hosted) clear() {
	c := minioClient(h.t, h.Server, h.admin, h.secret)
	buckets, err := c.ListBuckets(h.t.Context())
	testenv.Check(h.t, err)
	for _, b := range buckets {
		if s3utils.CheckValidBucketName(b.Name) != nil {
			continue // the client refuses such a name; only its creation is tested
		}
		for o := range c.ListObjects(h.t.Context(), b.Name, minio.ListObjectsOptions{Recursive: true}) {
			testenv.Check(h.t, errors.Join(o.Err, c.RemoveObject(h.t.Context(), b.Name, o.Key, minio.RemoveObjectOptions{})))
		}
		testenv.Check(h.t, c.RemoveBucket(h.t.Context(), b.Name))
	}
}

// versityTest runs a test and returns why it fails, or "".
func versityTest(t *testing.T, program string, h *hosted, name string) string {
	command := exec.CommandContext(t.Context(), program, "test", "--access", h.admin, "--secret", h.secret,
		"--endpoint", strings.Replace(h.S3, "localhost", "127.0.0.1", 1), name)
	if versioned.MatchString(name) {
		command.Args = append(command.Args, "--versioning-enabled") // it removes versions, too
	}
	command.Dir = filepath.Dir(program) // some tests run it in their folder
	command.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "AWS_") })
	out, err := command.CombinedOutput()
	if err != nil {
		return failureOf(out)
	}
	return ""
}

// failureOf returns the line with a test's failure.
func failureOf(out []byte) string {
	out = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAll(out, nil)
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if line := lines.Text(); strings.Contains(line, "FAIL") || strings.Contains(line, "panic:") {
			return line
		}
	}
	return "without a message"
}
