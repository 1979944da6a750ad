package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	historyInterval = 10 * time.Second
	historyLength   = int(time.Hour / historyInterval)
)

// Interval counts the events in some time.
type Interval struct {
	End                                  time.Time
	Took                                 time.Duration
	Requests, ClientErrors, ServerErrors int64         // errors by the status's class
	BytesIn, BytesOut                    int64         // of bodies, of all requests
	P50, P90, P99                        time.Duration // 0: there were no requests
}

// History remembers the last hour's requests. It samples their metrics, so requests cost nothing
// more. Its methods may be called concurrently.
type History struct {
	requests *Requests
	except   func(route string) bool // that are not counted

	mu      sync.Mutex
	samples []counters // at most historyLength+1, the oldest first
}

// counters are the values of metrics at a time.
type counters struct {
	at                                   time.Time
	requests, clientErrors, serverErrors int64
	in, out                              int64
	buckets                              []bucket
}

// bucket counts the requests that took at most this time.
type bucket struct {
	seconds float64
	count   uint64
}

// NewHistory returns the history of requests, without some routes.
func NewHistory(requests *Requests, except func(route string) bool) *History {
	return &History{requests: requests, except: except}
}

// Record samples every ten seconds until ctx ends.
func (h *History) Record(ctx context.Context) {
	h.add(h.sample(time.Now()))
	ticker := time.NewTicker(historyInterval)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			h.add(h.sample(now))
		case <-ctx.Done():
			return
		}
	}
}

func (h *History) add(s counters) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples = append(h.samples, s)
	if extra := len(h.samples) - historyLength - 1; extra > 0 {
		h.samples = slices.Delete(h.samples, 0, extra)
	}
}

// Intervals returns an Interval for each ten seconds within the last hour since Record was started,
// the oldest first, and one for the time after them until now.
func (h *History) Intervals(now time.Time) []Interval {
	h.mu.Lock()
	samples := append(slices.Clone(h.samples), h.sample(now))
	h.mu.Unlock()
	list := make([]Interval, 0, len(samples)-1)
	for i, s := range samples[1:] {
		list = append(list, s.since(samples[i]))
	}
	return list
}

// sample returns the present counters.
func (h *History) sample(now time.Time) counters {
	r := h.requests
	s := counters{at: now, in: valueOf(r.in), out: valueOf(r.out)}
	for _, one := range collected(r.requests) {
		if h.except(labelOf(one, "route")) {
			continue
		}
		count := int64(one.GetCounter().GetValue())
		s.requests += count
		switch labelOf(one, "code")[:1] {
		case "4":
			s.clientErrors += count
		case "5":
			s.serverErrors += count
		}
	}
	for _, one := range collected(r.duration) {
		if h.except(labelOf(one, "route")) {
			continue
		}
		s.buckets = addBuckets(s.buckets, one.GetHistogram())
	}
	return s
}

// addBuckets adds a histogram's buckets. The last one, which has all its counts, gets the bound
// before it.
func addBuckets(sum []bucket, h *dto.Histogram) []bucket {
	bounded := h.GetBucket()
	if sum == nil {
		sum = make([]bucket, len(bounded)+1)
	}
	for i, b := range bounded {
		sum[i].seconds = b.GetUpperBound()
		sum[i].count += b.GetCumulativeCount()
	}
	last := len(bounded)
	sum[last].seconds = sum[last-1].seconds
	sum[last].count += h.GetSampleCount()
	return sum
}

func valueOf(counter prometheus.Counter) int64 {
	var one dto.Metric
	if err := counter.Write(&one); err != nil {
		return 0 // only a metric that was declared wrongly has an error
	}
	return int64(one.GetCounter().GetValue())
}

func collected(from prometheus.Collector) []*dto.Metric {
	metrics := make(chan prometheus.Metric)
	go func() {
		from.Collect(metrics)
		close(metrics)
	}()
	var list []*dto.Metric
	for m := range metrics {
		var one dto.Metric
		if err := m.Write(&one); err != nil {
			continue // only a metric that was declared wrongly has an error
		}
		list = append(list, &one)
	}
	return list
}

func labelOf(one *dto.Metric, name string) string {
	for _, label := range one.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

func (s counters) since(before counters) Interval {
	i := Interval{
		End:          s.at,
		Took:         s.at.Sub(before.at),
		Requests:     s.requests - before.requests,
		ClientErrors: s.clientErrors - before.clientErrors,
		ServerErrors: s.serverErrors - before.serverErrors,
		BytesIn:      s.in - before.in,
		BytesOut:     s.out - before.out,
	}
	took := slices.Clone(s.buckets)
	for k, b := range before.buckets {
		took[k].count -= b.count
	}
	i.P50, i.P90, i.P99 = quantile(took, 0.5), quantile(took, 0.9), quantile(took, 0.99)
	return i
}

// quantile estimates a quantile of times from cumulative counts, on the assumption that the times
// in a bucket are spread evenly. It returns 0 if there are none. Times beyond the last bucket count
// as its bound.
func quantile(buckets []bucket, q float64) time.Duration {
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return 0
	}
	rank := q * float64(buckets[len(buckets)-1].count)
	var below bucket
	for _, b := range buckets {
		if float64(b.count) >= rank && b.count > below.count {
			return seconds(below.seconds + (b.seconds-below.seconds)*(rank-float64(below.count))/float64(b.count-below.count))
		}
		below = b
	}
	return seconds(below.seconds)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
