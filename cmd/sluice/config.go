package main

import (
	"errors"
	"fmt"
	"log/slog"
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

	Profile            profile        `default:"local" enum:"local,hosted" help:"local (for development: open to this machine) or hosted (for a network: callers show API keys)."`
	Addr               string         `default:"localhost:9090" placeholder:"HOST:PORT" help:"Where to listen; localhost means both loopback addresses, port 0 picks one."`
	AdminAddr          string         `placeholder:"HOST:PORT" help:"Where to serve metrics and profiles, or off; by default off, and localhost:9091 when hosted."`
	TLSCert            string         `name:"tls-cert" placeholder:"FILE" help:"Serve TLS with this certificate, in PEM, intermediates behind it; loaded anew when it changes."`
	TLSKey             string         `name:"tls-key" placeholder:"FILE" help:"The private key of the certificate, in PEM."`
	BasePath           string         `placeholder:"/NAME" help:"Serve under this path instead of the root."`
	ExternalURL        string         `name:"external-url" placeholder:"URL" help:"The base address under which clients reach the service, base path included."`
	TrustedProxies     []string       `placeholder:"CIDR,..." help:"Proxies whose X-Forwarded-For tells the address of a client."`
	AllowedHosts       []string       `placeholder:"HOST,..." help:"Further host names to answer under."`
	CORSOrigins        []string       `name:"cors-origins" placeholder:"ORIGIN,..." help:"Further origins whose pages may use the service."`
	OpenToNetwork      bool           `help:"Allow an address that is not loopback. Everybody who reaches it can read and write everything."`
	VerifyTTL          time.Duration  `name:"verify-ttl" default:"10m" help:"How long a block that was checked is served without checking it again; 0 checks on each read."`
	Reads              string         `placeholder:"WHO" help:"Who may read blobs: public (everybody), key (whoever has a key for the account) or paid (whoever pays for the chunksets, too); by default public, to be chosen when hosted."`
	Receiver           string         `placeholder:"ADDRESS" help:"The address that is paid; by default one made for the data folder."`
	Asset              string         `default:"${asset}" placeholder:"ADDRESS" help:"The metadata address of the asset that is paid in."`
	MicropaymentModule string         `default:"${module}" placeholder:"ADDRESS" help:"The address that deployed the module which micropayments call."`
	ChainID            uint8          `name:"chain-id" default:"4" help:"The chain on which micropayments are collected."`
	ChunksetPrice      int64          `default:"1" help:"The price of a chunkset, in units of the asset; at least 1."`
	SessionTTL         time.Duration  `name:"session-ttl" default:"720h" help:"How long a session lives."`
	ChannelTTL         time.Duration  `name:"channel-ttl" default:"2160h" help:"How long a channel lives when nothing else is asked for."`
	UnsettledLimit     int64          `default:"1000000" help:"How much a channel may have accepted and not settled yet, in units of the asset."`
	GarbageGrace       *time.Duration `placeholder:"DURATION" help:"How long bytes stay after the last reference to them is gone; by default 0s, and 24h where several nodes may be at work."`
	AllowLargeSweep    bool           `help:"Let the orphan sweep delete more than its brake allows."`
	DrainWait          *time.Duration `placeholder:"DURATION" help:"How long to go on as before after SIGTERM, but for /readyz; by default 0s, and 5s when hosted."`
	DrainDeadline      time.Duration  `default:"30s" help:"How long requests may go on after that."`

	LogLevel slog.Level `default:"info" placeholder:"LEVEL" help:"What to log: debug (probes and preflights, too), info, warn or error."`

	Places places `embed:""`

	MaxConnections           int        `placeholder:"N" help:"How many connections are served at once; by default what the limit of open files has room for, at most ${max_connections}."`
	MaxConnectionsPerAddress count      `placeholder:"N" help:"How many connections one address may have open, trusted proxies excepted, or unlimited; by default no limit, and a quarter of all when hosted."`
	MaxRequests              int        `default:"4096" placeholder:"N" help:"How many requests are served at once, of all callers."`
	Key                      limitFlags `embed:"" prefix:"key-" set:"whose=the keys of a group"`
	Address                  limitFlags `embed:"" prefix:"address-" set:"whose=callers without a key that share an address"`
}

// Validate reports everything that is wrong, at once.
func (c *config) Validate() error {
	return errors.Join(
		c.checkAddresses(), c.checkTLS(), c.checkCallers(), c.checkStorage(), c.checkPayment(), c.checkDrain(), c.checkProfile(),
	)
}

func (c *config) checkAddresses() error {
	var errs []error
	host, err := checkAddr("--addr", c.Addr)
	switch {
	case err != nil:
		errs = append(errs, err)
	case c.Profile == local && !c.OpenToNetwork && !isLoopbackHost(host):
		errs = append(errs, fmt.Errorf("--addr %s: everything is open here, so only loopback addresses are listened on unless --open-to-network is given", c.Addr))
	}
	if c.AdminAddr != "" && c.AdminAddr != adminOff {
		_, err := checkAddr("--admin-addr", c.AdminAddr)
		errs = append(errs, err)
	}
	if err := httpapi.CheckBasePath(c.BasePath); err != nil {
		errs = append(errs, fmt.Errorf("--base-path: %w", err))
	}
	if c.ExternalURL != "" {
		errs = append(errs, checkExternalURL(c.ExternalURL, c.BasePath))
	}
	if c.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("--max-connections %d: must not be negative", c.MaxConnections))
	}
	if c.MaxRequests < 1 {
		errs = append(errs, fmt.Errorf("--max-requests %d: must be at least 1", c.MaxRequests))
	}
	return errors.Join(errs...)
}

// checkAddr gives the host of an address to listen on.
func checkAddr(flag, addr string) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%s %s: want HOST:PORT, such as localhost:9090", flag, addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%s %s: the port must be a number from 0 to 65535, not %q", flag, addr, port)
	}
	return host, nil
}

// checkExternalURL wants what a client can put an operation's path behind.
func checkExternalURL(address, basePath string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return fmt.Errorf("--external-url %s: want http or https, a host and the base path, such as https://blobs.example.org/sluice", address)
	case strings.ContainsAny(address, "?#"):
		return fmt.Errorf("--external-url %s: must have neither a query nor a fragment", address)
	case strings.HasSuffix(u.Path, "/") || !strings.HasSuffix(u.Path, basePath):
		return fmt.Errorf("--external-url %s: its path must end in the base path, %q", address, basePath)
	}
	return nil
}

func (c *config) checkTLS() error {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key: either needs the other")
	}
	return nil
}

func (c *config) checkCallers() error {
	var errs []error
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
	_, err := c.trustedProxies()
	return errors.Join(append(errs, err)...)
}

// trustedProxies gives the networks of the proxies; an address alone is one of
// its own.
func (c *config) trustedProxies() (networks []netip.Prefix, err error) {
	var errs []error
	for _, text := range c.TrustedProxies {
		network, err := netip.ParsePrefix(text)
		if addr, e := netip.ParseAddr(text); e == nil {
			network, err = addr.Prefix(addr.BitLen())
		}
		if err != nil || network.Addr().Is4In6() {
			errs = append(errs, fmt.Errorf("--trusted-proxies %s: want a network or an address, such as 10.0.0.0/8", text))
			continue
		}
		networks = append(networks, network.Masked())
	}
	return networks, errors.Join(errs...)
}

func (c *config) checkStorage() error {
	errs := []error{c.Places.check()}
	if c.GarbageGrace != nil && *c.GarbageGrace < minGrace && (*c.GarbageGrace != 0 || c.Places.shared()) {
		errs = append(errs, fmt.Errorf("--garbage-grace %s: must be at least %s, or 0s for a single node", c.GarbageGrace, minGrace))
	}
	if c.VerifyTTL < 0 {
		errs = append(errs, fmt.Errorf("--verify-ttl %s: must not be negative", c.VerifyTTL))
	}
	return errors.Join(errs...)
}

// minGrace leaves the longest of usual reads time: no reply lives longer than the
// grace period less a minute.
const minGrace = 10 * time.Minute

// grace is how long bytes stay after the last reference to them is gone. A
// single node knows its readers, and needs none.
func (c *config) grace() time.Duration {
	switch {
	case c.GarbageGrace != nil:
		return *c.GarbageGrace
	case c.Places.shared():
		return 24 * time.Hour
	default:
		return 0
	}
}

func (c *config) checkPayment() error {
	var errs []error
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
	return errors.Join(errs...)
}

func (c *config) checkDrain() error {
	var errs []error
	if c.DrainWait != nil && *c.DrainWait < 0 {
		errs = append(errs, fmt.Errorf("--drain-wait %s: must not be negative", c.DrainWait))
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
