package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"sluice/chain"
	"sluice/collect"
	"sluice/internal/secretfile"
	"sluice/internal/task"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/paychan"
)

const (
	// chainStartTimeout bounds how long a start waits for the fullnodes.
	chainStartTimeout = 5 * time.Second
	// chainRetry is the interval at which fullnodes that did not answer at the start are asked
	// again.
	chainRetry = 30 * time.Second
	// chainTimeout bounds a request to a fullnode, and chainRounds how often a call asks all of
	// them.
	chainTimeout = 5 * time.Second
	chainRounds  = 2
	// gasInterval is the interval at which the chain's gas price is read.
	gasInterval = 30 * time.Second
	// submissionGas is about the gas that a submission takes, in gas units: as much as an asset's
	// transfer.
	submissionGas = 1000
)

// receiverAccount is the account that is paid, with the means to collect its payments.
type receiverAccount struct {
	signer *micropay.Signer
	chain  *chain.Client
	clock  *chainClock
	nodes  []*chain.Client // a client of each fullnode, to compare its chain
	silent []int           // the fullnodes with an unknown chain, because they did not answer
}

// openReceiver reads the receiver's key and the fullnodes'. The chain's time is compared with the
// clock now. It sends nothing. It returns nil if no chain is configured.
func (c *Config) openReceiver(now func() time.Time) (*receiverAccount, error) {
	if len(c.ChainURLs) == 0 {
		return nil, nil
	}
	signer, err := c.receiverSigner()
	if err != nil {
		return nil, err
	}
	opt, err := c.chainOptions()
	if err != nil {
		return nil, err
	}
	r := &receiverAccount{signer: signer}
	opt.Timeout, opt.Rounds, opt.Now = chainTimeout, chainRounds, now
	if r.chain, err = chain.New(opt); err != nil {
		return nil, err
	}
	r.clock = &chainClock{chain: r.chain}
	opt.Rounds, opt.Timeout = 1, chainStartTimeout
	for _, url := range c.ChainURLs {
		opt.Nodes = []string{url}
		node, err := chain.New(opt)
		if err != nil {
			return nil, err
		}
		r.nodes = append(r.nodes, node)
	}
	return r, nil
}

// receiverSigner returns the receiver's signer. A secp256k1 key's address follows from the key; an
// Ed25519 key has two addresses, and --receiver selects one.
func (c *Config) receiverSigner() (*micropay.Signer, error) {
	const flag = "--receiver-key-file"
	text, err := readSecret(flag, c.ReceiverKeyFile)
	if err != nil {
		return nil, err
	}
	key, err := micropay.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: the file %s: want a private key of 64 hexadecimal digits, with ed25519-priv-0x or secp256k1-priv-0x before them", flag, c.ReceiverKeyFile)
	}
	var signers []*micropay.Signer
	var addresses []string
	for _, scheme := range []micropay.Scheme{micropay.SchemeEd25519, micropay.SchemeSingleKey} {
		if s, err := micropay.NewSigner(scheme, key); err == nil {
			signers, addresses = append(signers, s), append(addresses, s.Address().String())
		}
	}
	either := strings.Join(addresses, " or ")
	if c.Receiver == "" {
		if len(signers) > 1 {
			return nil, fmt.Errorf("--receiver: is required with an Ed25519 key, which has two addresses: want %s", either)
		}
		return signers[0], nil
	}
	receiver, err := micropay.ParseAddress(c.Receiver)
	if err != nil {
		return nil, err
	}
	signer, err := micropay.NewSignerOf(receiver, key)
	if err != nil {
		return nil, fmt.Errorf("--receiver %s: is not an address of the key in %s: want %s", c.Receiver, flag, either)
	}
	return signer, nil
}

func (c *Config) chainOptions() (chain.Options, error) {
	module, err := micropay.ParseAddress(c.PaidOn.Module)
	if err != nil {
		return chain.Options{}, err
	}
	opt := chain.Options{Nodes: c.ChainURLs, ChainID: c.PaidOn.ID, Module: module, Transport: c.chainTransport}
	if c.ChainAPIKeyFile != "" {
		const flag = "--chain-api-key-file"
		if opt.APIKey, err = readSecret(flag, c.ChainAPIKeyFile); err != nil {
			return opt, err
		}
		if opt.APIKey == "" || strings.ContainsFunc(opt.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return opt, fmt.Errorf("%s: the file %s: want one API key", flag, c.ChainAPIKeyFile)
		}
	}
	return opt, nil
}

// ChannelReader returns a function that reads channels of one sender and receiver from the chain.
// With an error, skip reports whether the chain answers another question, so that other channels
// may be readable. It needs the settings of the chain, and no key of the receiver.
func (c *Config) ChannelReader() (func(context.Context, ...ledger.Channel) (readings []ledger.Reading, skip bool, err error), error) {
	opt, err := c.chainOptions()
	if err != nil {
		return nil, err
	}
	client, err := chain.New(opt)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, of ...ledger.Channel) (readings []ledger.Reading, skip bool, err error) {
		receiver, err := micropay.ParseAddress(of[0].Receiver)
		if err == nil {
			readings, err = collect.Reader{Chain: client, Receiver: receiver}.ReadAll(ctx, of...)
		}
		if err != nil {
			_, headErr := client.Head(ctx)
			return nil, headErr == nil, err
		}
		return readings, false, nil
	}, nil
}

// readSecret returns the text of a file that only its owner may access, without white space around
// it.
func readSecret(flag, file string) (string, error) {
	text, err := secretfile.Read(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// start compares each fullnode's chain with --chain, and the chain's time with the clock. It
// returns an error if a fullnode belongs to another chain, and warns of those that do not answer.
func (r *receiverAccount) start(ctx context.Context, log *slog.Logger) error {
	for i := range r.nodes {
		r.silent = append(r.silent, i)
	}
	var looked sync.WaitGroup
	defer looked.Wait()
	looked.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, chainStartTimeout)
		defer cancel()
		r.clock.look(ctx, log)
	})
	return r.compareChains(ctx, log)
}

// ahead returns by how many seconds the chain's time is ahead of the store's clock, or 0.
func (r *receiverAccount) ahead() float64 {
	if r == nil {
		return 0
	}
	ahead, _ := r.chain.Ahead()
	return ahead.Seconds()
}

// simulate returns a micropayment's outcome on the chain, without submitting it.
func (r *receiverAccount) simulate(ctx context.Context, m *micropay.Micropayment) (paychan.Simulation, error) {
	body, err := m.Simulation(r.signer)
	if err != nil {
		return paychan.Simulation{}, err
	}
	s, err := r.chain.Simulate(ctx, body)
	return paychan.Simulation{Success: s.Success, VMStatus: s.VMStatus, GasUsed: s.GasUsed}, err
}

// watch asks the fullnodes that did not answer at the start for their chain, until all have or ctx
// ends. One of another chain is never used, because each of its responses states its chain; watch
// logs it.
func (r *receiverAccount) watch(ctx context.Context, log *slog.Logger) {
	for len(r.silent) > 0 && task.Wait(ctx, chainRetry) == nil {
		if err := r.compareChains(ctx, log); err != nil {
			log.Error("a fullnode is not used", "error", err)
		}
	}
}

// compareChains compares the silent fullnodes' chains with --chain, and keeps those that are
// still silent. It returns an error if one belongs to another chain.
func (r *receiverAccount) compareChains(ctx context.Context, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, chainStartTimeout)
	defer cancel()
	answers := make([]error, len(r.silent))
	var asked sync.WaitGroup
	for i, node := range r.silent {
		asked.Go(func() { _, answers[i] = r.nodes[node].Head(ctx) })
	}
	asked.Wait()
	var silent []int
	var wrong []error
	for i, node := range r.silent {
		switch err := answers[i]; {
		case err == nil:
		case errors.Is(err, chain.ErrWrongChain):
			wrong = append(wrong, fmt.Errorf("--chain: URL %d of %d in --chain-url is a fullnode of another chain", node+1, len(r.nodes)))
		default:
			silent = append(silent, node)
			log.Warn("a fullnode does not answer, and is asked again", "url", node+1, "error", err)
		}
	}
	r.silent = silent
	return errors.Join(wrong...)
}

// gasPrices returns the least gas price at which the chain executes a transaction, and the usual
// one.
func (r *receiverAccount) gasPrices(ctx context.Context) (least, usual uint64, err error) {
	prices, err := r.chain.GasPrices(ctx)
	return prices.Lowest, prices.Usual, err
}

// watchGas reads the chain's gas prices until ctx ends, so that micropayments with other prices are
// refused. It warns once if a chunkset is priced below the gas of its submission.
func (r *receiverAccount) watchGas(ctx context.Context, channels *paychan.Service, c *Config, log *slog.Logger) {
	warned := false
	task.Repeat(ctx, 0, gasInterval, func() {
		prices, err := r.chain.GasPrices(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("the gas price of the chain cannot be read", "error", err)
		default:
			channels.SetGasPrices(prices.Lowest, prices.Usual)
			if fee := collect.FeeUnits(submissionGas, prices.Usual, c.CoinPrice); !warned && c.ChunksetPrice < fee {
				warned = true
				log.Warn("a chunkset costs less than the gas of its submission", "chunkset_price", c.ChunksetPrice, "gas_of_a_collection", fee)
			}
		}
	})
}
