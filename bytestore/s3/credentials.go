package s3

import (
	"context"
	"errors"
	"os"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// errNoCredentials replaces the providers' errors, because they may repeat lines from the files.
var errNoCredentials = errors.New("no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile of the AWS files, or set credentials=iam to use the role of this machine")

// newCredentials returns the chain of providers. It does not query them.
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

// namesRole reports whether the environment names a role. Without one the provider of roles would
// query the machine's metadata address, which on most machines does not exist and never responds.
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

// checkCredentials returns an error if there are no credentials.
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

// region returns the region to sign for, or "" if AWS has to be queried.
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
