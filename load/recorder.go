package load

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Kind is a kind of operation.
type Kind int

// The kinds of operations.
const (
	Put       Kind = iota // stores a blob in one request
	Get                   // reads a whole blob
	Range                 // reads a range
	Multipart             // stores a blob in parts: begins an upload, sends its parts and completes it
	Use                   // deducts a chunkset from a session
	kinds                 // the number of kinds
)

var kindNames = [kinds]string{"put", "get", "range", "multipart", "use"}

// String returns the kind's name.
func (k Kind) String() string { return kindNames[k] }

// Latencies are recorded from 1 us to an hour, with three significant digits.
const (
	lowestLatency     = time.Microsecond
	highestLatency    = time.Hour
	significantDigits = 3
)

// tally is the record of one kind.
type tally struct {
	mu      sync.Mutex
	latency *hdrhistogram.Histogram // in nanoseconds; nil until the first record
	done    int64
	bytes   int64
	unsent  int64
	errors  map[string]int64 // by code
	first   error
}

// Recorder records the outcomes of operations. The zero value is ready to use. Its methods may be
// called concurrently.
type Recorder struct {
	done    atomic.Int64
	tallies [kinds]tally
}

// Done returns the number of operations that have ended so far, in success or failure.
func (r *Recorder) Done() int64 { return r.done.Load() }

// record records an operation that has ended.
func (r *Recorder) record(k Kind, latency time.Duration, bytes int64, err error) {
	t := &r.tallies[k]
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done++
	t.bytes += bytes
	t.addLatency(latency)
	if err != nil {
		if t.first == nil {
			t.first, t.errors = err, map[string]int64{}
		}
		t.errors[codeOf(err)]++
	}
	r.done.Add(1)
}

// recordUnsent records an operation that was due and was not sent, after it had waited.
func (r *Recorder) recordUnsent(k Kind, waited time.Duration) {
	t := &r.tallies[k]
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsent++
	t.addLatency(waited)
}

func (t *tally) addLatency(latency time.Duration) {
	if t.latency == nil {
		t.latency = hdrhistogram.New(int64(lowestLatency), int64(highestLatency), significantDigits)
	}
	// It is in the histogram's range, so there is no error.
	_ = t.latency.RecordValue(int64(min(max(latency, lowestLatency), highestLatency)))
}

// Summary is the record of one kind of operations, or of all.
type Summary struct {
	Done   int64            // operations that have ended, in success or failure
	Bytes  int64            // in the contents that they transferred
	Unsent int64            // operations in an open loop that were due and were not sent
	Errors map[string]int64 // failed operations, by code
	First  error            // the first error, or nil

	latency *hdrhistogram.Histogram
}

// Failed returns the number of operations that failed.
func (s *Summary) Failed() (n int64) {
	for _, count := range s.Errors {
		n += count
	}
	return n
}

// Quantile returns the latency that a share q of all operations, from 0 to 1, did not exceed.
// Operations that were not sent count with the time that they waited, which is less than they would
// have taken.
func (s *Summary) Quantile(q float64) time.Duration {
	return time.Duration(s.latency.ValueAtQuantile(q * 100))
}

// Min returns the lowest latency.
func (s *Summary) Min() time.Duration { return time.Duration(s.latency.Min()) }

// Max returns the highest latency.
func (s *Summary) Max() time.Duration { return time.Duration(s.latency.Max()) }

// Mean returns the mean latency.
func (s *Summary) Mean() time.Duration { return time.Duration(s.latency.Mean()) }

// Summaries returns the record of each kind with an operation.
func (r *Recorder) Summaries() map[Kind]*Summary {
	all := map[Kind]*Summary{}
	for k := range kinds {
		if s := r.tallies[k].summary(); s != nil {
			all[k] = s
		}
	}
	return all
}

func (t *tally) summary() *Summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.latency == nil {
		return nil
	}
	return &Summary{Done: t.done, Bytes: t.bytes, Unsent: t.unsent, Errors: maps.Clone(t.errors), First: t.first, latency: t.latency.Clone()}
}

// Total returns the sum of all records.
func (r *Recorder) Total() *Summary {
	total := &Summary{Errors: map[string]int64{}, latency: hdrhistogram.New(int64(lowestLatency), int64(highestLatency), significantDigits)}
	for k := range kinds {
		s := r.tallies[k].summary()
		if s == nil {
			continue
		}
		total.Done += s.Done
		total.Bytes += s.Bytes
		total.Unsent += s.Unsent
		for code, n := range s.Errors {
			total.Errors[code] += n
		}
		if total.First == nil {
			total.First = s.First
		}
		total.latency.Merge(s.latency)
	}
	return total
}
