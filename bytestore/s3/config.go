package s3

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// PathStyle defines where a request names the bucket.
type PathStyle string

// The path styles.
const (
	// PathStyleAuto uses the host name for AWS and the few other services that are known to require
	// it, and the path for all other services.
	PathStyleAuto PathStyle = "auto"
	PathStyleOn   PathStyle = "on"  // https://endpoint/bucket/key
	PathStyleOff  PathStyle = "off" // https://bucket.endpoint/key
)

// CredentialSource defines where credentials come from.
type CredentialSource string

// The sources of credentials.
const (
	// CredentialsAuto uses the first available of: the AWS variables, the AWS files and, only if
	// the environment names such a role (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_CONTAINER_CREDENTIALS_*),
	// that role. It never queries a machine's metadata address.
	CredentialsAuto CredentialSource = "auto"
	CredentialsEnv  CredentialSource = "env"  // AWS_ACCESS_KEY_ID and its companions
	CredentialsFile CredentialSource = "file" // ~/.aws/credentials and ~/.aws/config
	CredentialsIAM  CredentialSource = "iam"  // the machine's or container's role
)

// Config is a bucket's address. It contains no secrets and may be logged. It is made by ParseDSN.
type Config struct {
	Bucket string
	// Prefix begins the names of all objects. It is empty or ends in a slash.
	Prefix string
	// Endpoint is http:// or https:// with a host and optionally a port. Empty means AWS.
	Endpoint string
	// Region is the region for which requests are signed. Empty means AWS_REGION,
	// AWS_DEFAULT_REGION or, if neither is set, the region that AWS reports for the bucket, and
	// us-east-1 for other services.
	Region      string
	PathStyle   PathStyle
	Credentials CredentialSource
	// Profile is a section in the AWS files. Empty means AWS_PROFILE or "default".
	Profile string
	// CAFile is a PEM file of additional certificate authorities to trust.
	CAFile string
}

// ParseDSN parses a bucket's address:
//
//	s3://BUCKET[/PREFIX][?PARAMETER=VALUE&...]
//
//	endpoint     https://HOST[:PORT] or http://HOST[:PORT]; default AWS
//	region       the region to sign for
//	path-style   auto, on or off
//	credentials  auto, env, file or iam
//	profile      a section in the AWS files; no other source is used then
//	ca           a file of certificate authorities, for https
//
// An address that contains keys is an error. Errors never repeat text that may contain a key: they
// repeat nothing from the address but these parameters' names.
func ParseDSN(dsn string) (Config, error) {
	c, err := parseDSN(dsn)
	if err != nil {
		return Config{}, fmt.Errorf("s3: %w", err)
	}
	return c, nil
}

func parseDSN(dsn string) (Config, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "s3" || u.Opaque != "" {
		return Config{}, errors.New("the address must have the form s3://BUCKET/PREFIX?endpoint=https://HOST:PORT")
	}
	if u.User != nil {
		return Config{}, errors.New("the address must not contain keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or use an AWS credentials file")
	}
	if u.Fragment != "" || strings.HasSuffix(dsn, "#") {
		return Config{}, errors.New("the address must not contain a fragment (#)")
	}
	c := Config{Bucket: u.Host, PathStyle: PathStyleAuto, Credentials: CredentialsAuto}
	if err := s3utils.CheckValidBucketNameStrict(c.Bucket); err != nil {
		return Config{}, fmt.Errorf("the bucket: %w", err)
	}
	if c.Prefix, err = parsePrefix(u.Path); err != nil {
		return Config{}, err
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, errors.New("the parameters after ? are not valid: they must have the form NAME=VALUE&NAME=VALUE with percent-encoding")
	}
	for name, values := range parameters {
		if !slices.Contains(parameterNames, name) {
			return Config{}, fmt.Errorf("unknown parameter; the parameters are %s", strings.Join(parameterNames, ", "))
		}
		if len(values) != 1 || values[0] == "" {
			return Config{}, fmt.Errorf("parameter %q: must be present once, with a value", name)
		}
		if err := c.set(name, values[0]); err != nil {
			return Config{}, fmt.Errorf("parameter %q: %w", name, err)
		}
	}
	return c, c.consistent()
}

var parameterNames = []string{"endpoint", "region", "path-style", "credentials", "profile", "ca"}

func (c *Config) set(name, value string) (err error) {
	switch name {
	case "endpoint":
		c.Endpoint, err = parseEndpoint(value)
	case "region":
		c.Region, err = matching(regionForm, value, "must consist of letters, digits and -")
	case "profile":
		c.Profile, err = matching(profileForm, value, "must consist of letters, digits and ._-")
	case "path-style":
		c.PathStyle, err = oneOf(value, PathStyleAuto, PathStyleOn, PathStyleOff)
	case "credentials":
		c.Credentials, err = oneOf(value, CredentialsAuto, CredentialsEnv, CredentialsFile, CredentialsIAM)
	case "ca":
		c.CAFile = value
	}
	return err
}

// consistent checks combinations of parameters.
func (c *Config) consistent() error {
	if c.CAFile != "" && strings.HasPrefix(c.Endpoint, "http://") {
		return errors.New(`parameter "ca": an http endpoint has no certificate`)
	}
	if c.Profile != "" && (c.Credentials == CredentialsEnv || c.Credentials == CredentialsIAM) {
		return errors.New(`parameter "profile": only credentials=file reads profiles`)
	}
	return nil
}

// String returns a DSN that ParseDSN parses as the same configuration.
func (c Config) String() string {
	parameters := url.Values{}
	for name, value := range map[string]string{
		"endpoint": c.Endpoint, "region": c.Region, "profile": c.Profile, "ca": c.CAFile,
		"path-style": string(c.PathStyle), "credentials": string(c.Credentials),
	} {
		if value != "" && value != "auto" || name == "region" && value == "auto" {
			parameters.Set(name, value)
		}
	}
	u := url.URL{Scheme: "s3", Host: c.Bucket, Path: "/" + c.Prefix, RawQuery: parameters.Encode()}
	return u.String()
}

var (
	regionForm  = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	profileForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	// prefixForm has only characters that every S3 server and proxy handles correctly.
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$`)
)

// maxPrefix leaves space for a name: a key has at most 1,024 bytes.
const maxPrefix = 512

func matching(form *regexp.Regexp, value, want string) (string, error) {
	if !form.MatchString(value) {
		return "", errors.New(want)
	}
	return value, nil
}

func oneOf[T ~string](value string, choices ...T) (T, error) {
	if !slices.Contains(choices, T(value)) {
		return "", fmt.Errorf("must be one of %v", choices)
	}
	return T(value), nil
}

func parsePrefix(path string) (string, error) {
	if path == "" || path == "/" {
		return "", nil
	}
	prefix := strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if len(prefix) > maxPrefix || !prefixForm.MatchString(prefix) {
		return "", fmt.Errorf("the prefix must consist of segments of letters, digits and ._- separated by single slashes, of at most %d characters", maxPrefix)
	}
	for segment := range strings.SplitSeq(prefix, "/") {
		if segment == "." || segment == ".." {
			return "", errors.New("the prefix must not contain the segment . or .. anywhere")
		}
	}
	return prefix + "/", nil
}

// parseEndpoint checks that the value consists of scheme, host and port only.
func parseEndpoint(value string) (string, error) {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must be http or https, a host and optionally a port, such as https://s3.example.org:9000, without keys")
	}
	return u.Scheme + "://" + u.Host, nil
}
