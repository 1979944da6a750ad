package chain

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/micropay"
	"sluice/test/testenv"
)

// hanging is a transport on which one host hangs, and all further hosts answer and are behind, as
// if the clock were ahead.
type hanging struct{ asked *atomic.Int64 }

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "hangs.example" {
		h.asked.Add(1)
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	setHeaders(w.Header())
	w.Header().Set(headerTime, "1")
	_, _ = io.WriteString(w, `{"chain_id":4,"ledger_version":"1","ledger_timestamp":"1"}`)
	return w.Result(), nil
}

// TestHangingNodeDelaysFewCalls checks that for some time a node that hangs is asked last.
// Invariant 172.
func TestHangingNodeDelaysFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		c := newClient(t, Options{Nodes: []string{"https://hangs.example", "https://answers.example"}, Transport: hanging{&asked}, Timeout: 5 * time.Second})
		call := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			testenv.OK(t, testenv.Error(c.Head(t.Context())))
			testenv.Equal(t, time.Since(began), want, "the time of a call")
		}
		call(5 * time.Second)
		for range 100 {
			call(0)
		}
		time.Sleep(failurePause)
		call(5 * time.Second)
		testenv.Equal(t, asked.Load(), 2, "requests to the node that hangs")
	})
}

// TestNodeThatIsBehindIsAskedLast checks that a node's answer counts although its time stands
// still, and that for some time the node is asked last.
// Invariant 172.
func TestNodeThatIsBehindIsAskedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stood, behind := time.Now(), 0
		c := newClient(t, Options{Nodes: []string{"https://behind.example", "https://other.example"}, Transport: transport(func(r *http.Request) (*http.Response, error) {
			ledger := time.Now()
			if r.URL.Host == "behind.example" {
				ledger = stood
				behind++
			}
			answer := response(200, "", `[[]]`)
			answer.Header.Set(headerTime, strconv.FormatInt(ledger.UnixMicro(), 10))
			return answer, nil
		})})
		asks := func(want int) {
			t.Helper()
			for range 100 {
				testenv.OK(t, testenv.Error(c.Channels(t.Context(), micropay.Address{1}, micropay.Address{2})))
			}
			testenv.Equal(t, behind, want, "requests %s after the node's time stood still", time.Since(stood))
		}
		asks(100)
		time.Sleep(maxLag)
		asks(200)
		time.Sleep(time.Microsecond)
		asks(201)
		time.Sleep(failurePause)
		asks(202)
	})
}

// TestNodeThatIsAheadHasFailed asks nodes that are ahead of the clock by different times. No answer
// from a node that is more than a minute ahead is used, whatever it is asked for.
// Invariants 171, 172.
func TestNodeThatIsAheadHasFailed(t *testing.T) {
	const answer = `{"sequence_number":"7"}`
	now := chainTime
	aheadBy := func(ahead time.Duration, asked *int) string {
		return node(t, func(w http.ResponseWriter, r *http.Request) {
			*asked++
			w.Header().Set(headerTime, strconv.FormatInt(now.Add(ahead).UnixMicro(), 10))
			answers(200, answer)(w, r)
		})
	}
	for _, test := range []struct {
		ahead  time.Duration
		failed bool
	}{{-time.Hour, false}, {0, false}, {time.Minute, false}, {time.Minute + time.Microsecond, true}, {24 * time.Hour, true}, {100_000 * time.Hour, true}} {
		t.Run(test.ahead.String(), func(t *testing.T) {
			var asked, askedOther int
			options := Options{Rounds: 1, Now: func() time.Time { return now }, Nodes: []string{aheadBy(test.ahead, &asked)}}
			alone := newClient(t, options)
			_, err := alone.AccountSequence(t.Context(), micropay.Address{1})
			if errors.Is(err, ErrClock) != test.failed || errors.Is(err, ErrUnavailable) != test.failed {
				t.Errorf("error %v", err)
			}
			if ahead, known := alone.Ahead(); known == test.failed || known && ahead != test.ahead {
				t.Errorf("the chain is ahead by %v, %v", ahead, known)
			}
			options.Nodes = append(options.Nodes, aheadBy(3*time.Second, &askedOther))
			both := newClient(t, options)
			if got, err := both.AccountSequence(t.Context(), micropay.Address{1}); got != 7 || err != nil {
				t.Errorf("%d, %v", got, err)
			}
			if want := map[bool]int{true: 1}[test.failed]; asked != 2 || askedOther != want {
				t.Errorf("the node was asked %d times, and the second node %d times, want 2 and %d", asked, askedOther, want)
			}
			if ahead, _ := both.Ahead(); test.failed && ahead != 3*time.Second {
				t.Errorf("the other node is ahead by %v", ahead)
			}
		})
	}
}

// TestHeadOfAnotherTime asks for the head of a node behind a proxy that removes the headers.
// Invariant 171.
func TestHeadOfAnotherTime(t *testing.T) {
	for ahead, failed := range map[time.Duration]bool{time.Minute: false, time.Minute + time.Microsecond: true} {
		c := newClient(t, Options{Rounds: 1, Now: func() time.Time { return chainTime }, Nodes: []string{node(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Del(headerTime)
			answers(200, fmt.Sprintf(`{"chain_id":4,"ledger_version":"77","ledger_timestamp":"%d"}`, chainTime.Add(ahead).UnixMicro()))(w, r)
		})}})
		if _, err := c.Head(t.Context()); errors.Is(err, ErrClock) != failed || errors.Is(err, ErrUnavailable) != failed {
			t.Errorf("%v ahead: error %v", ahead, err)
		}
	}
}
