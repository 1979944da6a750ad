package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newRegistry gives the registry of the metrics, with those of the process, of
// Go and of the build in it.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector(),
	)
	return r
}

// startAdmin serves what is for the operator alone, at an address of its own. It
// returns how to end that, also where there is no such address.
func (c *config) startAdmin(ctx context.Context, metrics *prometheus.Registry, log *slog.Logger) (stop func() error, err error) {
	if c.AdminAddr == adminOff {
		return func() error { return nil }, nil
	}
	listeners, port, err := listen(ctx, "--admin-addr", c.AdminAddr, log)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(c.AdminAddr)
	if err != nil {
		return nil, err
	}
	handler := sameOriginOnly(adminHandler(metrics, log))
	if isLoopbackHost(host) {
		handler = loopbackOnly(handler)
	} else {
		log.Warn("the admin address is open to the network: everybody who reaches it can read the metrics and profiles of this process", "addr", c.AdminAddr)
	}
	server := newAdminServer(handler, log)
	failed := serve(listeners, server.Serve)
	go func() {
		select {
		case err := <-failed:
			log.Error("the admin address has failed", "error", err) // the service has not
		case <-ctx.Done():
		}
	}()
	log.Info("serving metrics and profiles", "url", "http://"+net.JoinHostPort(host, strconv.Itoa(port)))
	return server.Close, nil
}

func newAdminServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		// It ends what the request does, too, and a profile takes its time.
		ReadTimeout:    5 * time.Minute,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// adminHandler answers with metrics and profiles.
func adminHandler(metrics *prometheus.Registry, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelError),
		ErrorHandling: promhttp.ContinueOnError, // the other metrics are still true
	}))
	// Not /debug/pprof/cmdline: the command line may hold secrets.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n") // a client that went away needs no answer
	})
	return mux
}

// loopbackOnly refuses requests under another host name than that of this
// machine: a page in its browser could have had its own name lead here.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopbackHost((&url.URL{Host: r.Host}).Hostname()) {
			http.Error(w, "this address is for this machine alone: ask localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOriginOnly refuses the requests of pages from elsewhere, which a browser
// that reaches this address sends for anybody. Fetch metadata tells them where a
// browser sends no Origin.
func sameOriginOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin, err := url.Parse(r.Header.Get("Origin"))
		foreign := err != nil || r.Header.Get("Origin") != "" && origin.Host != r.Host
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
		default:
			foreign = true
		}
		if foreign {
			http.Error(w, "this address does not answer pages of other origins", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
