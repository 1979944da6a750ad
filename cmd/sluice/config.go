package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"sluice/httpapi"
)

// config is the configuration of serve. Every flag has an environment variable:
// --base-path is SLUICE_BASE_PATH.
type config struct {
	Addr            string        `default:"localhost:9090" placeholder:"HOST:PORT" help:"Where to listen; localhost means both loopback addresses, port 0 picks one."`
	Data            string        `default:"./sluice-data" placeholder:"DIR" help:"The folder that holds everything; created if it is not there."`
	BasePath        string        `placeholder:"/NAME" help:"Serve under this path instead of the root."`
	AllowedHosts    []string      `placeholder:"HOST,..." help:"Further host names to answer under."`
	CORSOrigins     []string      `name:"cors-origins" placeholder:"ORIGIN,..." help:"Further origins whose pages may use the service."`
	OpenToNetwork   bool          `help:"Allow an address that is not loopback. Everybody who reaches it can read and write everything."`
	VerifyTTL       time.Duration `name:"verify-ttl" default:"10m" help:"How long a block that was checked is served without checking it again; 0 checks on each read."`
	AllowLargeSweep bool          `help:"Let the orphan sweep delete more than its brake allows."`
	DrainDeadline   time.Duration `default:"30s" help:"How long requests may go on after SIGTERM."`
}

// Validate reports everything that is wrong, at once.
func (c *config) Validate() error {
	var errs []error
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		errs = append(errs, fmt.Errorf("--addr %s: want HOST:PORT, such as localhost:9090", c.Addr))
	} else {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			errs = append(errs, fmt.Errorf("--addr %s: the port must be a number from 0 to 65535, not %q", c.Addr, port))
		}
		if !c.OpenToNetwork && !isLoopbackHost(host) {
			errs = append(errs, fmt.Errorf("--addr %s: everything is open here, so only loopback addresses are listened on unless --open-to-network is given", c.Addr))
		}
	}
	if err := httpapi.CheckBasePath(c.BasePath); err != nil {
		errs = append(errs, fmt.Errorf("--base-path: %w", err))
	}
	if c.Data == "" {
		errs = append(errs, errors.New("--data: the folder must have a name"))
	}
	if c.VerifyTTL < 0 {
		errs = append(errs, fmt.Errorf("--verify-ttl %s: must not be negative", c.VerifyTTL))
	}
	if c.DrainDeadline <= 0 {
		errs = append(errs, fmt.Errorf("--drain-deadline %s: must be positive", c.DrainDeadline))
	}
	return errors.Join(errs...)
}

func isLoopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
