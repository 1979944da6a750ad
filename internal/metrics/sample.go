package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sampleTimeout bounds how long a scrape waits for a query, so that a database that hangs does
// not delay the other metrics.
const sampleTimeout = 2 * time.Second

// Figure is a gauge or a counter that is read from a query's result.
type Figure[T any] struct {
	Metric
	of func(result T, value string) float64
}

// GaugeOf returns a gauge.
func GaugeOf[T any](name, help string, of func(T) float64) Figure[T] {
	return Figure[T]{Metric{Name: name, Help: help, Type: TypeGauge}, func(result T, _ string) float64 { return of(result) }}
}

// GaugesOf returns a gauge for each label value.
func GaugesOf[T any](name, help, label string, values []string, of func(result T, value string) float64) Figure[T] {
	return Figure[T]{Metric{name, help, TypeGauge, label, values}, of}
}

// CounterOf returns a counter.
func CounterOf[T any](name, help string, of func(T) float64) Figure[T] {
	return Figure[T]{Metric{Name: name, Help: help, Type: TypeCounter}, func(result T, _ string) float64 { return of(result) }}
}

// CountersOf returns a counter for each label value.
func CountersOf[T any](name, help, label string, values []string, of func(result T, value string) float64) Figure[T] {
	return Figure[T]{Metric{name, help, TypeCounter, label, values}, of}
}

// Sample registers figures that are read from the result of one query. The query runs when the
// metrics are collected, never concurrently with itself. The figures are absent from a scrape
// if it returns an error, or has not returned within two seconds; its context ends then.
func Sample[T any](s *Set, query func(context.Context) (T, error), figures ...Figure[T]) {
	q := &sampled[T]{query: query}
	c := collector{}
	for _, f := range figures {
		s.list = append(s.list, f.Metric)
		c.descs = append(c.descs, f.desc())
	}
	c.collect = func(out chan<- prometheus.Metric) {
		result, ok := q.get()
		if !ok {
			return
		}
		for i, f := range figures {
			f.collect(out, c.descs[i], func(value string) float64 { return f.of(result, value) })
		}
	}
	s.registry.MustRegister(c)
}

// sampled runs a query on behalf of all concurrent scrapes.
type sampled[T any] struct {
	query   func(context.Context) (T, error)
	mu      sync.Mutex
	running *sampling[T] // nil: none
}

// sampling is a query's run. Its result may be read when done is closed.
type sampling[T any] struct {
	done   chan struct{}
	result T
	err    error
}

// get returns the query's result, or false.
func (q *sampled[T]) get() (result T, ok bool) {
	run := q.join()
	timeout := time.NewTimer(sampleTimeout)
	defer timeout.Stop()
	select {
	case <-run.done:
		return run.result, run.err == nil
	case <-timeout.C:
		return result, false
	}
}

// join returns the running query, or starts one.
func (q *sampled[T]) join() *sampling[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running == nil {
		q.running = &sampling[T]{done: make(chan struct{})}
		go q.run(q.running)
	}
	return q.running
}

// run does not use a request's context, because several requests may wait for the result.
func (q *sampled[T]) run(r *sampling[T]) {
	ctx, cancel := context.WithTimeout(context.Background(), sampleTimeout)
	defer cancel()
	r.result, r.err = q.query(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = nil
	close(r.done)
}
