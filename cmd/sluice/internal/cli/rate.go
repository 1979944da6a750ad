package cli

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"sluice/client"
	"sluice/internal/units"
)

// RateFlag limits how many bytes a second are read or written.
type RateFlag struct {
	MaxRate byteRate `env:"-" placeholder:"SIZE" help:"At most so many bytes a second, such as 20MiB. Default: no limit."`
}

// byteRate is a number of bytes a second; 0: no limit.
type byteRate int64

// UnmarshalText parses a size.
func (r *byteRate) UnmarshalText(text []byte) error {
	n, err := units.ParseSize(string(text))
	if err != nil || n < 1<<10 {
		return fmt.Errorf("want a size of at least 1KiB, such as 20MiB, not %q", text)
	}
	*r = byteRate(n)
	return nil
}

// burstTime is the time in which unused bytes add up.
const burstTime = 100 * time.Millisecond

// Limit returns a function that waits until so many more bytes are allowed, or nil if all are. Its
// calls share the rate and may be concurrent.
func (f RateFlag) Limit() func(ctx context.Context, n int64) error {
	if f.MaxRate == 0 {
		return nil
	}
	burst := int64(f.MaxRate) / int64(time.Second/burstTime)
	limiter := rate.NewLimiter(rate.Limit(f.MaxRate), int(burst))
	limiter.AllowN(time.Now(), int(burst)) // a short command is limited, too
	return func(ctx context.Context, n int64) error {
		for ; n > 0; n -= burst {
			if err := limiter.WaitN(ctx, int(min(n, burst))); err != nil {
				return err
			}
		}
		return nil
	}
}

// BothWays returns the options of clients that share the rate: each direction has all of it.
func (f RateFlag) BothWays() client.Options {
	return client.Options{LimitSend: f.Limit(), LimitReceive: f.Limit()}
}
