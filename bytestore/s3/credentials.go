package s3

import (
	"context"
	"errors"
	"os"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// errNoCredentials says all that may be said: the errors of the providers can
// repeat lines of the files.
var errNoCredentials = errors.New("no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile of the AWS files, or give credentials=iam to use the role of this machine")

// newCredentials makes the chain of providers. Nothing is asked yet.
func (c *Config) newCredentials() *credentials.Credentials {
	env, file := &credentials.EnvAWS{}, &credentials.FileAWSCredentials{Profile: c.Profile}
	var chain []credentials.Provider
	switch {
	case c.Credentials == CredentialsIAM:
		chain = []credentials.Provider{&credentials.IAM{}}
	case c.Credentials == CredentialsFile || c.Profile != "":
		chain = []credentials.Provider{file}
	case c.Credentials == CredentialsEnv:
		chain = []credentials.Provider{env}
	default:
		chain = []credentials.Provider{env, file}
		if namesRole() {
			chain = append(chain, &credentials.IAM{})
		}
	}
	return credentials.NewChainCredentials(chain)
}

// namesRole reports whether the environment asks for a role. Without it the
// provider of roles would ask the machine's metadata address, which on most
// machines is nobody's and answers never.
func namesRole() bool {
	for _, name := range []string{
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
	} {
		if os.Getenv(name) != "" {
			return true
		}
	}
	return false
}

// checkCredentials makes sure that there are some.
func (s *Store) checkCredentials(ctx context.Context, creds *credentials.Credentials) error {
	lookup := s.core.CredContext()
	lookup.Context = ctx
	value, err := creds.GetWithContext(lookup)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil || value.AccessKeyID == "" || value.SecretAccessKey == "" {
		return errNoCredentials
	}
	return nil
}

// region is what requests are signed for; empty when AWS is to be asked.
func (c *Config) region() string {
	for _, region := range []string{c.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")} {
		if region != "" {
			return region
		}
	}
	if c.Endpoint == "" {
		return ""
	}
	return "us-east-1"
}
