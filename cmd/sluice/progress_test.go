package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/instance"
	"sluice/internal/testenv"
)

func TestProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := newProgress(&out, false)
		at := func(done int64, ended bool) {
			p.update(instance.Progress{Phase: instance.PhaseBytes, Done: done, Total: 100, Ended: ended})
		}
		at(0, false)
		at(10, false)
		at(20, false)
		time.Sleep(progressInterval)
		at(60, false)
		at(61, false)
		p.message("complaint")
		at(111, false)
		at(111, true)
		want := "bytes: 0 of 100 bytes\nbytes: 60 of 100 bytes\nsluice: complaint\nbytes: 100 of 100 bytes\n"
		testenv.Equal(t, out.String(), want, "printed")
	})
}

func TestQuietProgress(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, true)
	p.update(instance.Progress{Phase: instance.PhaseBytes, Total: 10})
	p.update(instance.Progress{Phase: instance.PhaseBytes, Done: 10, Total: 10, Ended: true})
	p.message("complaint")
	p.Close()
	testenv.Equal(t, out.String(), "sluice: complaint\n", "printed")
}
