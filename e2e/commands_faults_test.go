package e2e

import (
	"maps"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// TestFolderSurvivesFaults stores a folder and reads it back through a network that resets and
// stalls connections. The test kills the command three times and runs it again, and then does the
// same to the server. The command may send no acknowledged part or file again, the folder must come
// back identical, and no transfer may leave a file.
func TestFolderSurvivesFaults(t *testing.T) {
	t.Parallel()
	testenv.Require(t, testenv.Unix)
	const part = 256 << 10
	files := map[string]string{
		"empty": "", "small": "text", ".hidden": "h", "with space/ü": "u", "a/b/c/d/e": "deep", "100%": "%", "question?x=1#f": "q",
		"part": string(content(1, part)), "less": string(content(2, part-1)), "more": string(content(3, part+1)),
		// The large one takes three ranges to download.
		"sub/big": string(content(4, 12*part-5)), "large": string(content(5, 36<<20+1)),
	}
	for seed := range uint64(2) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s := start(t, options{addr: testenv.ReserveAddress(t), dirty: true})
			var network *faultyNetwork
			p := newCountingProxyOn(t, s, func(l net.Listener) net.Listener {
				network = newFaultyNetwork(l, seed)
				return network
			})
			r := &faultyRuns{t: t, s: s, p: p, random: rand.New(rand.NewPCG(seed, 1))}
			source, target := makeTree(t, files), t.TempDir()
			tree := readTree(t, source)

			r.responses = 158 + len(files) // of the three files in several parts, and of the others
			r.until("put", "-r", source, "team/dir", "--part-size", "256KiB", "--url", p.url)
			for request, n := range p.delivered {
				if strings.HasPrefix(request, "PUT ") && n != 1 {
					t.Errorf("%s was acknowledged %d times", request, n)
				}
			}
			if n := len(p.uploads); n != 3 {
				t.Errorf("%d uploads have parts, want one for each file in several parts", n)
			}
			if got := readTree(t, source); !maps.Equal(got, tree) {
				t.Errorf("the source is %q after the uploads", slices.Sorted(maps.Keys(got)))
			}

			r.responses = 3 + len(files)
			r.until("get", "-r", "team/dir", target, "--url", p.url)
			if got := readTree(t, target); !maps.Equal(got, tree) {
				t.Errorf("got %v\nwant %v", got, tree)
			}
			network.mu.Lock()
			defer network.mu.Unlock()
			t.Logf("%d connections ended, %d stalls", network.ends, network.stalls)
			if network.ends < 10 || network.stalls < 5 {
				t.Error("too few faults happened")
			}
		})
	}
}

// faultyRuns runs a command again and again until it has succeeded, as a user does. During the
// first runs it kills the command, and then the server, after numbers of responses that depend on a
// seed.
type faultyRuns struct {
	t         *testing.T
	s         *server
	p         *countingProxy
	random    *rand.Rand
	responses int // about as many as the whole transfer has
}

func (r *faultyRuns) until(args ...string) {
	r.t.Helper()
	for range 3 {
		r.during(args, func(command *exec.Cmd) {
			if err := command.Process.Kill(); err != nil {
				r.t.Fatal(err)
			}
		})
	}
	r.during(args, func(*exec.Cmd) {
		r.s.kill()
		r.s.restart()
	})
	for range 5 {
		result := sluiceRuns(r.t, args...)
		if result.code == 0 {
			r.p.wait()
			return
		}
		r.t.Logf("exit code %d: %s", result.code, result.stderr)
	}
	r.t.Fatal("the command does not succeed")
}

// during starts the command and calls do after some responses. The next requests wait for its
// return.
func (r *faultyRuns) during(args []string, do func(command *exec.Cmd)) {
	r.t.Helper()
	command := exec.CommandContext(r.t.Context(), sluice, args...)
	var stderr strings.Builder
	command.Stderr = &stderr
	n := 1 + r.random.IntN(r.responses/3)
	reached := r.p.after(n)
	if err := command.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // its exit code is logged
	}()
	select {
	case <-ended:
	case <-reached:
		do(command)
	}
	r.p.resume()
	<-ended
	r.p.wait()
	r.t.Logf("after %d responses: exit code %d, %s", n, command.ProcessState.ExitCode(), stderr.String())
}
