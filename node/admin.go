package node

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

	"sluice/exchange"
	"sluice/httpapi"
	"sluice/internal/metrics"
)

// adminMux serves metrics and profiles, and the operations for administrators if they have no other
// address.
func adminMux(set *metrics.Set, api *httpapi.Server, log *slog.Logger) http.Handler {
	mux := adminHandler(set, log)
	if pattern, handler := api.AdminHandler(); handler != nil {
		mux.Handle(pattern, handler)
	}
	return mux
}

// startAdmin serves mux on addr, an address for operators only. It returns a function that stops
// the server.
func startAdmin(ctx context.Context, addr string, mux http.Handler, log *slog.Logger) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	listeners, port, err := listen(ctx, "--admin-addr", addr, log)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	handler := sameOriginOnly(mux)
	if exchange.IsLoopback(host) {
		handler = loopbackOnly(handler)
	} else {
		log.Warn("the admin address is open to the network: everyone who can connect to it can read the metrics and profiles of this process", "addr", addr)
	}
	server := newAdminServer(handler, log)
	failed, stopped := serve(listeners, server.Serve), make(chan struct{})
	go func() {
		select {
		case err := <-failed:
			log.Error("the admin address has failed", "error", err) // the service goes on
		case <-stopped:
		}
	}()
	log.Info("serving metrics and profiles", "url", "http://"+net.JoinHostPort(host, strconv.Itoa(port)))
	return func() error {
		close(stopped)
		return server.Close()
	}, nil
}

func newAdminServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		// It also ends the handler, and a profile takes its time.
		ReadTimeout:    5 * time.Minute,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// adminHandler serves metrics, profiles and /livez.
func adminHandler(set *metrics.Set, log *slog.Logger) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", set.Handler(log))
	// Not /debug/pprof/cmdline: the command line may contain secrets.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "ok\n") // the client may be gone
	})
	return mux
}

// loopbackOnly rejects requests for a host that is not this machine, as a
// defense against DNS rebinding.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !exchange.IsLoopback((&url.URL{Host: r.Host}).Hostname()) {
			http.Error(w, "this address serves this machine only: use localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// sameOriginOnly rejects requests that a browser sends for pages of other origins.
// Fetch metadata identifies them where a browser sends no Origin.
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
			http.Error(w, "this address does not serve pages of other origins", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
