package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/httpapi"
	"sluice/micropay"
)

// config is the configuration of serve. Every flag has an environment variable
// (--base-path is SLUICE_BASE_PATH) and a key in the file (base-path); the flag
// wins over the variable, the variable over the file.
type config struct {
	Config kong.ConfigFlag `placeholder:"FILE" help:"A file of flags, in YAML: base-path: /sluice"`

	Addr               string        `default:"localhost:9090" placeholder:"HOST:PORT" help:"Where to listen; localhost means both loopback addresses, port 0 picks one."`
	Data               string        `default:"./sluice-data" placeholder:"DIR" help:"The folder that holds everything; created if it is not there."`
	BasePath           string        `placeholder:"/NAME" help:"Serve under this path instead of the root."`
	AllowedHosts       []string      `placeholder:"HOST,..." help:"Further host names to answer under."`
	CORSOrigins        []string      `name:"cors-origins" placeholder:"ORIGIN,..." help:"Further origins whose pages may use the service."`
	OpenToNetwork      bool          `help:"Allow an address that is not loopback. Everybody who reaches it can read and write everything."`
	VerifyTTL          time.Duration `name:"verify-ttl" default:"10m" help:"How long a block that was checked is served without checking it again; 0 checks on each read."`
	Reads              string        `default:"public" enum:"public,paid" help:"Who may read blobs: public (everybody) or paid (whoever pays for the chunksets)."`
	Receiver           string        `placeholder:"ADDRESS" help:"The address that is paid; by default one made for the data folder."`
	Asset              string        `default:"${asset}" placeholder:"ADDRESS" help:"The metadata address of the asset that is paid in."`
	MicropaymentModule string        `default:"${module}" placeholder:"ADDRESS" help:"The address that deployed the module which micropayments call."`
	ChainID            uint8         `name:"chain-id" default:"4" help:"The chain on which micropayments are collected."`
	ChunksetPrice      int64         `default:"1" help:"The price of a chunkset, in units of the asset; at least 1."`
	SessionTTL         time.Duration `name:"session-ttl" default:"720h" help:"How long a session lives."`
	ChannelTTL         time.Duration `name:"channel-ttl" default:"2160h" help:"How long a channel lives when nothing else is asked for."`
	UnsettledLimit     int64         `default:"1000000" help:"How much a channel may have accepted and not settled yet, in units of the asset."`
	AllowLargeSweep    bool          `help:"Let the orphan sweep delete more than its brake allows."`
	DrainDeadline      time.Duration `default:"30s" help:"How long requests may go on after SIGTERM."`
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
	for _, host := range c.AllowedHosts {
		if strings.ContainsAny(host, ":/*") {
			errs = append(errs, fmt.Errorf("--allowed-hosts %s: want a host name alone, without scheme, port or pattern", host))
		}
	}
	for _, origin := range c.CORSOrigins {
		if u, err := url.Parse(origin); err != nil || u.Scheme == "" || u.Host == "" || strings.Trim(u.Path, "/") != "" || strings.Contains(origin, "*") {
			errs = append(errs, fmt.Errorf("--cors-origins %s: want a scheme and a host, such as https://app.example.org", origin))
		}
	}
	if c.Data == "" {
		errs = append(errs, errors.New("--data: the folder must have a name"))
	}
	if c.VerifyTTL < 0 {
		errs = append(errs, fmt.Errorf("--verify-ttl %s: must not be negative", c.VerifyTTL))
	}
	for _, address := range []struct{ flag, value string }{
		{"--receiver", c.Receiver}, {"--asset", c.Asset}, {"--micropayment-module", c.MicropaymentModule},
	} {
		if _, err := micropay.ParseAddress(address.value); err != nil && address.value != "" {
			errs = append(errs, fmt.Errorf("%s %s: want an address, such as 0x1", address.flag, address.value))
		}
	}
	if c.ChunksetPrice < 1 {
		errs = append(errs, fmt.Errorf("--chunkset-price %d: must be at least 1", c.ChunksetPrice))
	}
	if c.UnsettledLimit < 1 {
		errs = append(errs, fmt.Errorf("--unsettled-limit %d: must be at least 1", c.UnsettledLimit))
	}
	if c.SessionTTL <= 0 || c.ChannelTTL <= 0 {
		errs = append(errs, fmt.Errorf("--session-ttl %s and --channel-ttl %s: must be positive", c.SessionTTL, c.ChannelTTL))
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
