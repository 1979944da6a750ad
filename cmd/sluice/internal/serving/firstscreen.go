package serving

import (
	"fmt"
	"io"
	"strings"

	"sluice/cmd/sluice/internal/contexts"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/node"
)

// firstScreen is serve's output on a terminal: where the service and its data are, and commands to
// try.
type firstScreen struct {
	version, url, data string
	s3                 string // the base URL for S3's clients; "": S3 is not served
	console, ephemeral bool
	seed               string // folder; "": none
	seeded             node.Seeded
}

// thisMachine replaces addresses that stand for all of this machine's by one that clients can use.
var thisMachine = strings.NewReplacer("//0.0.0.0:", "//localhost:", "//[::]:", "//localhost:", "=0.0.0.0:", "=localhost:", "=[::]:", "=localhost:")

func (s firstScreen) print(out io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("sluice %s, a local instance", s.version)
	line("")
	line("  Service  %s", s.url)
	if s.console {
		line("  Console  %s/console/", s.url)
	}
	if s.s3 != "" {
		line("  S3       %s", s.s3)
	}
	line("  Data     %s", s.where())
	if s.seed != "" {
		line("  Seed     %s", s.seedResult())
	}
	line("")
	line("Try, in another terminal:")
	line("")
	for _, command := range s.examples() {
		line("  %s", command)
	}
	if s.s3 != "" {
		line("")
		line("Clients of S3 work after these lines, and SDKs with path style. An account")
		line("is a bucket, and any keys and any region will do:")
		line("")
		for _, command := range s.s3Lines() {
			line("  %s", command)
		}
	}
	line("")
	line("Ctrl-C stops the server.")
	_, err := io.WriteString(out, thisMachine.Replace(b.String()))
	return err
}

func (s firstScreen) where() string {
	if s.ephemeral {
		return "in memory and " + terminal.Name(s.data) + ", until it stops"
	}
	return terminal.Name(s.data)
}

func (s firstScreen) seedResult() string {
	text := fmt.Sprintf("%s (%s) of %s", units.Count(s.seeded.Blobs, "blob"), units.Bytes(s.seeded.Bytes), units.Count(s.seeded.Accounts, "account"))
	if s.seeded.Kept > 0 {
		text += fmt.Sprintf(", %d kept", s.seeded.Kept)
	}
	if n := len(s.seeded.Skipped); n > 0 {
		text += fmt.Sprintf(", %d skipped (see above)", n)
	}
	return text
}

// s3Lines returns lines after which aws, rclone and SDKs use this instance, and one for s3cmd,
// which reads no address from the environment. Any credentials are accepted, but most tools want
// some. The function is for versions of aws before 2.13, which ignore AWS_ENDPOINT_URL_S3.
func (s firstScreen) s3Lines() []string {
	return []string{
		"export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any AWS_REGION=us-east-1",
		"export AWS_ENDPOINT_URL_S3=" + s.s3,
		"aws() { command aws --endpoint-url " + s.s3 + ` "$@"; }`,
		"export RCLONE_S3_PROVIDER=Other RCLONE_S3_ENDPOINT=" + s.s3,
		"s3cmd --no-ssl --host=" + strings.TrimPrefix(s.s3, "http://") + " --host-bucket=localhost ls",
	}
}

// examples returns three lines that work on any machine with curl and this command.
func (s firstScreen) examples() []string {
	server := ""
	if s.url != contexts.DefaultURL {
		server = " --url " + s.url
	}
	return []string{
		"echo hello | curl -T - " + s.url + "/v1/blobs/0x1/hello.txt",
		"curl " + s.url + "/v1/blobs/0x1/hello.txt",
		"sluice ls 0x1/" + server,
	}
}
