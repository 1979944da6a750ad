//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/load"
)

func memoryGroup() *group {
	return &group{name: "memory", title: "Memory", prepare: prepareMemory, notes: []string{
		"Resident memory of a server started for each round: its peak with 64 concurrent uploads of 64 MiB, and its growth for each of 8,000 connections that have sent one GET of 4 KiB and wait.",
	}}
}

func prepareMemory(_ context.Context, e *environment) ([]*row, error) {
	limit := func(name string, value float64) []peer {
		return []peer{{side: always(name, value), target: 1, atMost: true}}
	}
	return []*row{
		{name: "64 uploads of 64 MiB", unit: "MiB", sluice: side{"sluice", e.uploadMemory}, peers: limit("limit, 200 MiB", 200)},
		{name: "an idle connection", unit: "KiB", sluice: side{"sluice", e.idleMemory}, peers: limit("limit, 20 KiB", 20)},
	}, nil
}

// uploadMemory returns a server's peak with 64 concurrent uploads, in MiB.
func (e *environment) uploadMemory(ctx context.Context, _ time.Duration) (m measurement, err error) {
	if err := e.requireSpace(5); err != nil {
		return m, err
	}
	const uploads, size = 64, 64 * mib
	return e.onFreshServer(ctx, func(s *sluiceServer) (m measurement, err error) {
		l := ownLoad{connections: uploads, url: s.url, request: func(n int64) (*load.Request, int, int64) {
			return &load.Request{Method: http.MethodPut, Path: fmt.Sprintf("/v1/blobs/0x1/%d", n), Content: load.Content{Size: size, Seed: n}, Length: size}, http.StatusNoContent, size
		}}
		if _, err := l.runPlan(ctx, e, s.process, load.Plan{Count: uploads}); err != nil {
			return m, err
		}
		m.value, err = s.memory("VmHWM")
		m.value /= mib
		return m, err
	})
}

// idleConnections is the number of connections that wait.
const idleConnections = 8000

// idleMemory returns the memory that an idle connection adds to a server, in KiB.
func (e *environment) idleMemory(ctx context.Context, _ time.Duration) (m measurement, err error) {
	return e.onFreshServer(ctx, func(s *sluiceServer) (m measurement, err error) {
		paths, err := s.storeMany(ctx, 1)
		if err != nil {
			return m, err
		}
		host := strings.TrimPrefix(s.url, "http://")
		var open []net.Conn
		defer func() {
			for _, c := range open {
				err = errors.Join(err, c.Close())
			}
		}()
		connect := func(n int) error {
			for range n {
				c, err := net.Dial("tcp", host)
				if err != nil {
					return err
				}
				open = append(open, c)
				if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", paths[0], host); err != nil {
					return err
				}
				// The kernel's buffer has the response's rest.
				if _, err := io.ReadFull(c, make([]byte, len(content4K))); err != nil {
					return err
				}
			}
			return nil
		}
		if err := connect(100); err != nil { // memory that a server needs once
			return m, err
		}
		before, err := s.memory("VmRSS")
		if err != nil {
			return m, err
		}
		if err := connect(idleConnections); err != nil {
			return m, err
		}
		after, err := s.memory("VmRSS")
		m.value = (after - before) / idleConnections / 1024
		return m, err
	})
}

// onFreshServer calls fn with a server over a new folder, which is removed afterwards.
func (e *environment) onFreshServer(ctx context.Context, fn func(*sluiceServer) (measurement, error)) (m measurement, err error) {
	s, err := e.startSluice(ctx, "fresh")
	if err != nil {
		return m, err
	}
	m, err = fn(s)
	s.stop(syscall.SIGTERM)
	return m, errors.Join(err, os.RemoveAll(s.data))
}

// memory returns a line of /proc/PID/status, in bytes.
func (p *process) memory(name string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + name + `:\s*(\d+) kB`).FindSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("/proc has no %s", name)
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	return kib * 1024, err
}
