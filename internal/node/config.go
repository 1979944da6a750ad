package node

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/chain"
	"sluice/httpapi"
	"sluice/internal/loopback"
	"sluice/internal/storage"
	"sluice/metastore"
	"sluice/micropay"
)

// Profile is the purpose for which a node runs.
type Profile string

// The profiles.
const (
	Local  Profile = "local"  // development: this machine only, without keys
	Hosted Profile = "hosted" // a service on a network: callers have keys
)

// Config is the configuration of a node. A field without a comment on its default
// must be set. In errors, a field is named by the flag that sets it.
type Config struct {
	Version     string
	Profile     Profile
	LogRequests httpapi.LoggedRequests // "" for all

	Addr           string // host:port; host localhost means both loopback addresses, port 0 any
	AdminAddr      string // host:port for metrics and profiles; "" for none
	TLSCert        string // PEM file of the certificate chain; "" for no TLS
	TLSKey         string // PEM file of the private key
	Console        bool   // the web console is served
	BasePath       string // "" for the root
	ExternalURL    string // base URL for clients; "" if it is that of the request
	TrustedProxies []string
	AllowedHosts   []string
	CORSOrigins    []string
	OpenToNetwork  bool

	Reads              httpapi.Reads
	PublicCacheControl string // Cache-Control of blobs that have none, with public reads; "" for no-cache
	Receiver           string // "" for an address that is generated at the first start
	Asset              string
	MicropaymentModule string
	ChainID            uint8
	ChunksetPrice      int64
	SessionTTL         time.Duration
	ChannelTTL         time.Duration
	UnsettledLimit     int64
	ChainURLs          []string // fullnodes, in the order in which they are asked; none for the embedded ledger
	ChainAPIKeyFile    string   // "" for none
	ReceiverKeyFile    string   // required with ChainURLs
	StartingLimit      int64    // from 1 to UnsettledLimit; like the next five, required with ChainURLs
	SettleAt           int64    // from 1 to UnsettledLimit
	SettleWithin       time.Duration
	SettleParallel     int
	MaxSettleGas       uint64 // in the chain's smallest coin
	CoinPrice          int64  // units of the asset that 10^8 of the chain's smallest coin are worth; 0 if that is not known
	ChannelRefresh     time.Duration
	ResumeSettling     bool
	chainTransport     http.RoundTripper // nil, or the transport of tests

	Location        storage.Location
	Storage         storage.Options
	VerifyTTL       time.Duration
	GarbageGrace    time.Duration
	PurgeEvery      time.Duration
	SweepEvery      time.Duration
	AllowLargeSweep bool
	Seed            string // folder whose files are stored at the start; "" for none. Local profile only

	Faults    []string // rules of httpapi.CheckFault. Local profile only
	FaultSeed uint32

	DrainWait     time.Duration
	DrainDeadline time.Duration

	MaxRequests              int
	MaxConnections           int   // 0 for as many as the limit of open files allows
	MaxConnectionsPerAddress int64 // 0 for the default of the profile, or metastore.Unlimited
	KeyLimits                metastore.Limits
	AddressLimits            metastore.Limits
}

// faucet reports whether the node opens channels for everyone: payments are required, and worth nothing.
func (c *Config) faucet() bool {
	return c.Profile == Local && c.Reads == httpapi.ReadsPaid && len(c.ChainURLs) == 0
}

// minGrace is the minimum of GarbageGrace with several nodes. A download is cut
// after GarbageGrace minus one minute, so it leaves usual downloads enough time.
const minGrace = 10 * time.Minute

// Validate reports all errors that can be found without I/O.
func (c *Config) Validate() error {
	return errors.Join(
		c.validateAddresses(), c.validateTLS(), c.validateCallers(), c.validateStorage(),
		c.validatePayment(), c.validateDrain(), c.validateProfile(),
	)
}

func (c *Config) validateAddresses() error {
	var errs []error
	host, err := splitAddr("--addr", c.Addr)
	switch {
	case err != nil:
		errs = append(errs, err)
	case c.Profile == Local && !c.OpenToNetwork && !loopback.IsHost(host):
		errs = append(errs, fmt.Errorf("--addr %s: a local instance requires no keys, so it listens on loopback addresses only, unless --open-to-network is set", c.Addr))
	}
	if c.AdminAddr != "" {
		_, err := splitAddr("--admin-addr", c.AdminAddr)
		errs = append(errs, err)
	}
	if err := httpapi.CheckBasePath(c.BasePath); err != nil {
		errs = append(errs, fmt.Errorf("--base-path: %w", err))
	}
	if c.ExternalURL != "" {
		errs = append(errs, validateExternalURL(c.ExternalURL, c.BasePath))
	}
	if c.MaxConnections < 0 {
		errs = append(errs, fmt.Errorf("--max-connections %d: must not be negative", c.MaxConnections))
	}
	if c.MaxRequests < 1 {
		errs = append(errs, fmt.Errorf("--max-requests %d: must be at least 1", c.MaxRequests))
	}
	return errors.Join(errs...)
}

// splitAddr returns the host of a listen address.
func splitAddr(flag, addr string) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%s %s: want HOST:PORT, such as localhost:9090", flag, addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%s %s: the port must be a number from 0 to 65535, not %q", flag, addr, port)
	}
	return host, nil
}

// validateExternalURL requires a URL to which the path of an operation can be
// appended.
func validateExternalURL(address, basePath string) error {
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

func (c *Config) validateTLS() error {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("--tls-cert and --tls-key: either requires the other")
	}
	return nil
}

func (c *Config) validateCallers() error {
	var errs []error
	for _, host := range c.AllowedHosts {
		if err := httpapi.CheckAllowedHost(host); err != nil {
			errs = append(errs, fmt.Errorf("--allowed-hosts %s: %w", host, err))
		}
	}
	for _, origin := range c.CORSOrigins {
		if err := httpapi.CheckOrigin(origin); err != nil {
			errs = append(errs, fmt.Errorf("--cors-origins %s: %w", origin, err))
		}
	}
	_, err := c.trustedProxies()
	return errors.Join(append(errs, err)...)
}

// trustedProxies parses the networks of the proxies. An address without a length is
// a network of one address.
func (c *Config) trustedProxies() (networks []netip.Prefix, err error) {
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

func (c *Config) validateStorage() error {
	var errs []error
	if c.Location.Data == "" {
		errs = append(errs, errors.New("--data: must not be empty"))
	}
	errs = append(errs, c.Location.Validate("--"))
	if c.Storage.Cache != "" && !c.Location.Remote() {
		errs = append(errs, errors.New("--cache: requires an object store in --bytes; files in the data folder need no cache"))
	}
	if c.Storage.CacheSize < storage.MinCacheSize {
		errs = append(errs, errors.New("--cache-size: must be at least 2MiB"))
	}
	if c.Storage.StagingSize < storage.MinStagingSize {
		errs = append(errs, fmt.Errorf("--staging-size: must be at least %dMiB", storage.MinStagingSize>>20))
	}
	if c.GarbageGrace < minGrace && (c.GarbageGrace != 0 || c.Location.Shared()) {
		errs = append(errs, fmt.Errorf("--garbage-grace %s: must be at least %s, or 0s for a single node", c.GarbageGrace, minGrace))
	}
	if c.VerifyTTL < 0 {
		errs = append(errs, fmt.Errorf("--verify-ttl %s: must not be negative", c.VerifyTTL))
	}
	if c.PurgeEvery < time.Second {
		errs = append(errs, fmt.Errorf("--purge-every %s: must be at least 1s", c.PurgeEvery))
	}
	if c.SweepEvery < time.Second {
		errs = append(errs, fmt.Errorf("--sweep-every %s: must be at least 1s", c.SweepEvery))
	}
	return errors.Join(errs...)
}

func (c *Config) validatePayment() error {
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
	return errors.Join(append(errs, c.validateChain())...)
}

// validateChain reports settings of the chain that do not fit together. Its errors do not repeat URLs, which
// may contain secrets.
func (c *Config) validateChain() error {
	if len(c.ChainURLs) == 0 {
		if c.ReceiverKeyFile != "" || c.ChainAPIKeyFile != "" {
			return errors.New("--receiver-key-file and --chain-api-key-file: require --chain-url; without a chain nothing is signed")
		}
		return nil
	}
	var errs []error
	for i, url := range c.ChainURLs {
		if err := chain.CheckURL(url); err != nil {
			errs = append(errs, fmt.Errorf("--chain-url: URL %d of %d: %w", i+1, len(c.ChainURLs), err))
		}
	}
	if c.SettleAt < 1 || c.SettleAt > max(1, c.UnsettledLimit) {
		errs = append(errs, fmt.Errorf("--settle-at %d: must be from 1 to --unsettled-limit, %d", c.SettleAt, c.UnsettledLimit))
	}
	if c.StartingLimit < 1 || c.StartingLimit > max(1, c.UnsettledLimit) {
		errs = append(errs, fmt.Errorf("--starting-limit %d: must be from 1 to --unsettled-limit, %d", c.StartingLimit, c.UnsettledLimit))
	}
	if c.SettleWithin <= 0 {
		errs = append(errs, fmt.Errorf("--settle-within %s: must be positive", c.SettleWithin))
	}
	if c.CoinPrice < 0 {
		errs = append(errs, fmt.Errorf("--coin-price %d: must not be negative", c.CoinPrice))
	}
	if c.SettleParallel < 1 {
		errs = append(errs, fmt.Errorf("--settle-parallel %d: must be at least 1", c.SettleParallel))
	}
	if c.MaxSettleGas < 1 {
		errs = append(errs, errors.New("--max-settle-gas 0: must be at least 1"))
	}
	if c.ChannelRefresh <= 0 {
		errs = append(errs, fmt.Errorf("--channel-refresh %s: must be positive", c.ChannelRefresh))
	}
	if c.ReceiverKeyFile == "" {
		errs = append(errs, errors.New("--chain-url: requires --receiver-key-file, the key of the account that is paid"))
	}
	return errors.Join(errs...)
}

func (c *Config) validateDrain() error {
	var errs []error
	if c.DrainWait < 0 {
		errs = append(errs, fmt.Errorf("--drain-wait %s: must not be negative", c.DrainWait))
	}
	if c.DrainDeadline <= 0 {
		errs = append(errs, fmt.Errorf("--drain-deadline %s: must be positive", c.DrainDeadline))
	}
	return errors.Join(errs...)
}

// validateProfile reports settings that do not fit the profile.
func (c *Config) validateProfile() error {
	if c.Profile == Hosted {
		return c.validateHosted()
	}
	for _, rule := range c.Faults {
		if err := httpapi.CheckFault(rule); err != nil {
			return fmt.Errorf("--fault: %w", err)
		}
	}
	if c.PublicCacheControl != "" {
		return errors.New("--public-cache-control: the blobs of a local instance are not cached by others; it requires the hosted profile")
	}
	switch c.Reads {
	case httpapi.ReadsPublic, httpapi.ReadsPaid:
		return nil
	case httpapi.ReadsKey:
		return errors.New("--reads key: a local instance requires no keys; want public or paid")
	default:
		return fmt.Errorf("--reads %s: want public or paid", c.Reads)
	}
}

// validateHosted rejects the defaults of development, which must be replaced
// explicitly, and settings that have no effect on a hosted service.
func (c *Config) validateHosted() error {
	var errs []error
	for _, required := range []struct {
		missing bool
		text    string
	}{
		{c.BasePath == "", "--base-path: is required for the hosted profile, such as /sluice"},
		{c.ExternalURL == "", "--external-url: is required for the hosted profile, such as https://blobs.example.org/sluice"},
		{c.Reads == "", "--reads: is required for the hosted profile: public, key or paid"},
		{c.Receiver == "", "--receiver: is required for the hosted profile: the address that is paid"},
	} {
		if required.missing {
			errs = append(errs, errors.New(required.text))
		}
	}
	switch c.Reads {
	case "", httpapi.ReadsPublic, httpapi.ReadsKey, httpapi.ReadsPaid:
	default:
		errs = append(errs, fmt.Errorf("--reads %s: want public, key or paid", c.Reads))
	}
	errs = append(errs, c.validatePublicCacheControl())
	for _, useless := range []struct {
		set  bool
		text string
	}{
		{c.OpenToNetwork, "--open-to-network: the hosted profile always serves networks, and requires keys"},
		{len(c.AllowedHosts) > 0, "--allowed-hosts: the hosted profile accepts every host name"},
		{len(c.Faults) > 0, "--fault: requires the local profile"},
		{c.Seed != "", "--seed: requires the local profile; sluice put -r stores a folder"},
		{len(c.CORSOrigins) > 0, "--cors-origins: the hosted profile accepts every origin, because browsers never send keys on their own"},
	} {
		if useless.set {
			errs = append(errs, errors.New(useless.text))
		}
	}
	return errors.Join(errs...)
}

// validatePublicCacheControl rejects a value that would have no effect, because only blobs that
// everybody may read have it.
func (c *Config) validatePublicCacheControl() error {
	if c.PublicCacheControl == "" {
		return nil
	}
	if err := httpapi.CheckCacheControl(c.PublicCacheControl); err != nil {
		return fmt.Errorf("--public-cache-control %q: %w", c.PublicCacheControl, err)
	}
	if c.Reads != httpapi.ReadsPublic {
		return fmt.Errorf("--public-cache-control: requires --reads public; the responses of --reads %s are private", c.Reads)
	}
	return nil
}
