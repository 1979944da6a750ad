package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"sluice/httpapi"
	"sluice/metastore"
)

// profile is what the service is run for. It decides what must be chosen and
// what the defaults are.
type profile string

const (
	local  profile = "local"  // development: everything is open, to this machine only
	hosted profile = "hosted" // a service on a network
)

// adminOff is the admin address that means none.
const adminOff = "off"

// checkProfile reports what does not go with the profile. A hosted service must
// not run on what is made up for development.
func (c *config) checkProfile() error {
	if c.Profile == hosted {
		return c.checkHosted()
	}
	var errs []error
	switch httpapi.Reads(c.Reads) {
	case "", httpapi.ReadsPublic, httpapi.ReadsPaid:
	case httpapi.ReadsKey:
		errs = append(errs, errors.New("--reads key: the local profile asks for no keys; want public or paid"))
	default:
		errs = append(errs, fmt.Errorf("--reads %s: want public or paid", c.Reads))
	}
	if c.Key.limits() != (metastore.Limits{}) {
		errs = append(errs, errors.New("the limits --key-... are for the hosted profile: the local one has no keys to limit"))
	}
	return errors.Join(errs...)
}

func (c *config) checkHosted() error {
	var errs []error
	for _, needed := range []struct {
		missing bool
		text    string
	}{
		{c.BasePath == "", "--base-path: must be chosen for the hosted profile, such as /sluice"},
		{c.ExternalURL == "", "--external-url: must be chosen for the hosted profile, such as https://blobs.example.org/sluice"},
		{c.Reads == "", "--reads: must be chosen for the hosted profile: public, key or paid"},
		{c.Receiver == "", "--receiver: must be chosen for the hosted profile: the address that is paid"},
	} {
		if needed.missing {
			errs = append(errs, errors.New(needed.text))
		}
	}
	switch httpapi.Reads(c.Reads) {
	case "", httpapi.ReadsPublic, httpapi.ReadsKey, httpapi.ReadsPaid:
	default:
		errs = append(errs, fmt.Errorf("--reads %s: want public, key or paid", c.Reads))
	}
	for _, useless := range []struct {
		given bool
		text  string
	}{
		{c.OpenToNetwork, "--open-to-network: the hosted profile is for networks, and asks for keys"},
		{len(c.AllowedHosts) > 0, "--allowed-hosts: the hosted profile answers under every host name"},
		{len(c.CORSOrigins) > 0, "--cors-origins: the hosted profile serves the pages of every origin, to which keys are never sent by themselves"},
	} {
		if useless.given {
			errs = append(errs, errors.New(useless.text))
		}
	}
	return errors.Join(errs...)
}

// AfterApply gives what was not chosen the default of the profile.
func (c *config) AfterApply() error {
	d := localDefaults
	if c.Profile == hosted {
		d = hostedDefaults
	}
	c.Reads = cmp.Or(c.Reads, string(httpapi.ReadsPublic)) // a hosted service has chosen
	c.AdminAddr = cmp.Or(c.AdminAddr, d.adminAddr)
	if c.DrainWait == nil {
		c.DrainWait = &d.drainWait
	}
	c.Key.setDefaults(d.key)
	c.Address.setDefaults(d.address)
	return nil
}

// defaults are those that the profiles do not share.
type defaults struct {
	adminAddr string
	drainWait time.Duration
	key       metastore.Limits
	address   metastore.Limits
}

var (
	localDefaults = defaults{
		adminAddr: adminOff,
		key:       metastore.NoLimits(),
		address:   metastore.NoLimits(),
	}
	hostedDefaults = defaults{
		adminAddr: "localhost:9091",
		drainWait: 5 * time.Second, // what a load balancer needs to look at /readyz
		key: metastore.Limits{
			RequestsPerSecond: 1000, BytesInPerSecond: 512 << 20, BytesOutPerSecond: 512 << 20, ConcurrentRequests: 1024,
		}.Or(metastore.NoLimits()),
		address: metastore.Limits{
			RequestsPerSecond: 100, BytesInPerSecond: 32 << 20, BytesOutPerSecond: 32 << 20, ConcurrentRequests: 64,
		}.Or(metastore.NoLimits()),
	}
)
