// Package sluice runs sluice in a container, for a test.
package sluice

import (
	"context"
	"fmt"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// The ports in the container of the native interface and of S3's.
const (
	port   = "9090/tcp"
	s3Port = "9000/tcp"
)

// Container is a local instance of sluice, which needs no keys.
type Container struct {
	testcontainers.Container
}

// Run starts an instance of an image that make dist has made, and returns when it serves requests.
// Options may add flags of serve (testcontainers.WithCmdArgs). With an error, a container that is
// not nil must be terminated, as testcontainers.CleanupContainer does.
func Run(ctx context.Context, image string, options ...testcontainers.ContainerCustomizer) (*Container, error) {
	all := append([]testcontainers.ContainerCustomizer{
		testcontainers.WithCmd("serve", "--open-to-network"),
		testcontainers.WithExposedPorts(port, s3Port),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/readyz").WithPort(port)),
	}, options...)
	c, err := testcontainers.Run(ctx, image, all...)
	if err != nil {
		err = fmt.Errorf("sluice: %w", err)
	}
	if c == nil {
		return nil, err
	}
	return &Container{c}, err
}

// URL returns the native interface's base URL.
func (c *Container) URL(ctx context.Context) (string, error) {
	return c.PortEndpoint(ctx, port, "http")
}

// S3URL returns the endpoint for S3's clients, which need path style and any credentials.
func (c *Container) S3URL(ctx context.Context) (string, error) {
	return c.PortEndpoint(ctx, s3Port, "http")
}
