package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goclient "sluice/client"
	"sluice/test/testenv"
)

// MirrorLoad is clients that change blobs in two accounts, with and without versions, and a sluice
// mirror to another instance.
type MirrorLoad struct {
	T        testing.TB
	sources  []*Server
	target   *Server
	clients  []*goclient.Client // for the sources
	mirrored *goclient.Client   // for it
	made     atomic.Int64       // requests with a success
	dir      string
	mirror   *exec.Cmd
	output   []*LogBuffer // of each mirror's process
	killed   int          // sources
}

const (
	mirrorClients = 6
	mirrorNames   = 60
)

// NewMirrorLoad returns a load for servers that run, without blobs.
func NewMirrorLoad(t testing.TB, sources []*Server, target *Server) *MirrorLoad {
	t.Helper()
	l := &MirrorLoad{T: t, sources: sources, target: target, dir: t.TempDir()}
	for _, s := range append(sources, target) {
		c := testenv.Must(goclient.New(s.URL, goclient.Options{MaxAttempts: 1}))(t)
		t.Cleanup(c.CloseIdleConnections)
		l.clients = append(l.clients, c)
	}
	l.clients, l.mirrored = l.clients[:len(sources)], l.clients[len(sources)]
	sources[0].Must(200, "PUT", "/v1/admin/versions/"+keptAccount, []byte(`{"keep":"on"}`), "If-Match", "*")
	for name, s := range map[string]*Server{"source": sources[0], "target": target} {
		if r := l.sluice("context", "add", name, s.URL); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
	}
	return l
}

// command returns a command that finds the contexts of both servers.
func (l *MirrorLoad) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(context.WithoutCancel(l.T.Context()), Sluice, args...)
	c.Dir = l.dir
	c.Env = append(os.Environ(), "XDG_CONFIG_HOME="+l.dir, "HOME="+l.dir, "AppData="+l.dir)
	return c
}

func (l *MirrorLoad) sluice(args ...string) Result {
	l.T.Helper()
	c, stdout, stderr := l.command(args...), &LogBuffer{}, &LogBuffer{}
	c.Stdout, c.Stderr = stdout, stderr
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		l.T.Fatal(err)
	}
	return Result{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Mirror starts the mirror. Only its first process compares, unless the state is lost.
func (l *MirrorLoad) Mirror() {
	l.T.Helper()
	out := &LogBuffer{}
	l.output = append(l.output, out)
	l.mirror = l.command("mirror", "source:", "target:", "--json", "--max-deletions", "100", "--compare-every", "0s", "--retry-for", "2s")
	l.mirror.Stdout, l.mirror.Stderr = out, out
	testenv.OK(l.T, l.mirror.Start())
}

// EndMirror ends the mirror by a signal, and returns its exit code.
func (l *MirrorLoad) EndMirror(by os.Signal) int {
	l.T.Helper()
	testenv.OK(l.T, l.mirror.Process.Signal(by))
	var exit *exec.ExitError
	if err := l.mirror.Wait(); err != nil && !errors.As(err, &exit) {
		l.T.Fatal(err)
	}
	return l.mirror.ProcessState.ExitCode()
}

// KillMirror kills the mirror, and starts it again.
func (l *MirrorLoad) KillMirror() {
	l.T.Helper()
	if code := l.EndMirror(syscall.SIGKILL); code >= 0 {
		l.T.Errorf("the mirror had ended with %d: %s", code, l.output[len(l.output)-1])
	}
	l.Mirror()
}

// KillSource kills a source, and starts it again.
func (l *MirrorLoad) KillSource() {
	l.T.Helper()
	s := l.sources[l.killed%len(l.sources)]
	l.killed++
	s.Kill()
	s.Restart()
}

// KillTarget kills the target, and starts it again.
func (l *MirrorLoad) KillTarget() {
	l.T.Helper()
	l.target.Kill()
	l.target.Restart()
}

// Run changes blobs until so many requests have succeeded or until a time, in rounds: each trouble
// comes after some more requests. At a round's end both sides must become equal, by the changes
// alone.
func (l *MirrorLoad) Run(requests, phase int64, end time.Time, troubles ...func()) {
	l.T.Helper()
	seed := Seed(l.T)
	for round := uint64(0); l.made.Load() < requests && time.Now().Before(end) && !l.T.Failed(); round++ {
		stop := l.change(seed, round)
		if l.further(phase); round == 0 {
			l.Mirror()
			l.saved()
		}
		for _, trouble := range troubles {
			l.further(phase)
			trouble()
		}
		stop()
		l.equal()
	}
	if code := l.EndMirror(syscall.SIGTERM); code != 0 {
		l.T.Errorf("the exit code is %d", code)
	}
	l.report()
}

// change begins to change blobs, until the function that it returns is called.
func (l *MirrorLoad) change(seed, round uint64) (stop func()) {
	var clients sync.WaitGroup
	var over atomic.Bool
	stop = func() { over.Store(true); clients.Wait() }
	l.T.Cleanup(stop)
	for i := range uint64(mirrorClients) {
		random := rand.New(rand.NewPCG(seed, round*mirrorClients+i))
		clients.Go(func() {
			pause := time.NewTicker(5 * time.Millisecond)
			defer pause.Stop()
			for !over.Load() && !l.T.Failed() {
				if err := l.step(random); err == nil {
					l.made.Add(1)
				} else if !l.may(err) {
					l.T.Error(err)
				} else {
					<-pause.C
				}
			}
		})
	}
	return stop
}

// equal waits until both sides are equal.
func (l *MirrorLoad) equal() {
	l.T.Helper()
	var source, target map[string]string
	await(l.T, func() bool {
		source, target = l.blobs(l.clients[0]), l.blobs(l.mirrored)
		return maps.Equal(source, target)
	}, func() string {
		same := maps.Clone(source)
		maps.DeleteFunc(same, func(name, b string) bool { return target[name] != b })
		for name := range same {
			delete(source, name)
			delete(target, name)
		}
		return fmt.Sprintf("the source has %v, and the target %v\n%s", source, target, Tail(l.output[len(l.output)-1].String()))
	})
}

// saved waits until the mirror has compared, and saved its state.
func (l *MirrorLoad) saved() {
	l.T.Helper()
	Await(l.T, "the mirror saves no state", func() bool {
		found, err := filepath.Glob(filepath.Join(l.dir, "sluice", "mirrors", "*.json"))
		testenv.OK(l.T, err)
		return len(found) == 1
	})
}

// further waits until more requests have succeeded.
func (l *MirrorLoad) further(more int64) {
	l.T.Helper()
	until := l.made.Load() + more
	Await(l.T, "requests do not succeed", func() bool { return l.made.Load() >= until || l.T.Failed() })
}

// may reports whether a request may fail so: the server was killed, there is no blob, or it took
// longer than the blob's life.
func (l *MirrorLoad) may(err error) bool {
	refused, reported := errors.AsType[*goclient.Error](err)
	return !reported || slices.Contains([]int{404, 410, 412, 503}, refused.Status) || refused.Detail == "The expiry is in the past."
}

// step makes a random change.
func (l *MirrorLoad) step(random *rand.Rand) error {
	ctx, c := l.T.Context(), l.clients[random.IntN(len(l.clients))]
	at := func() goclient.BlobName {
		return goclient.BlobName{Account: feedAccounts[random.IntN(2)], Name: fmt.Sprintf("a b/%d%%/%d", random.IntN(3), random.IntN(mirrorNames))}
	}
	var o goclient.PutOptions
	if random.IntN(2) == 0 {
		o = goclient.PutOptions{ContentType: "text/x", CacheControl: "no-cache", ContentLanguage: "de", Metadata: map[string]string{"n": fmt.Sprint(random.IntN(9))}}
	}
	switch random.IntN(8) {
	case 0:
		o.Expires = time.Now().Add(time.Hour)
	case 1:
		o.Expires = time.Now().Add(2 * time.Second)
	}
	name := at()
	switch n := random.IntN(100); {
	case n < 50:
		size := random.IntN(200)
		switch {
		case n == 0:
			size = 17<<20 + random.IntN(9)
		case n < 3:
			size += 5 << 20
		case n < 10:
			size += 100 << 10
		}
		text := strings.Repeat(fmt.Sprintf("%8d", random.IntN(1000)), size/8+1)[:size]
		_, err := c.Put(ctx, name.Account, name.Name, strings.NewReader(text), o)
		return err
	case n < 70:
		return c.Delete(ctx, name.Account, name.Name, goclient.DeleteOptions{})
	case n < 80:
		_, err := c.Move(ctx, name, at(), goclient.MoveOptions{})
		return err
	default:
		to := at()
		if n >= 90 {
			to = name // only its properties change
		}
		_, err := c.Copy(ctx, name, to, goclient.CopyOptions{Expires: o.Expires, Replace: true, ContentType: o.ContentType, CacheControl: o.CacheControl, ContentLanguage: o.ContentLanguage, Metadata: o.Metadata})
		return err
	}
}

// blobs returns all that is mirrored, by account and name.
func (l *MirrorLoad) blobs(of *goclient.Client) map[string]string {
	l.T.Helper()
	blobs := map[string]string{}
	for _, account := range feedAccounts[:2] {
		for e, err := range of.List(context.WithoutCancel(l.T.Context()), account, goclient.ListOptions{Metadata: true}) {
			testenv.OK(l.T, err)
			b := e.Blob
			blobs[account+"/"+b.Name] = fmt.Sprint(b.ETag, b.ContentType, b.CacheControl, b.ContentLanguage, b.Metadata, b.Expires)
		}
	}
	return blobs
}

// report logs the actions of all processes, and checks that only the first has compared.
func (l *MirrorLoad) report() {
	l.T.Helper()
	actions := map[string]int{}
	for i, out := range l.output {
		for line := range strings.Lines(out.String()) {
			var e struct{ Event string }
			if json.Unmarshal([]byte(line), &e) == nil {
				actions[e.Event]++
			}
			if e.Event == "comparing" && i > 0 {
				l.T.Errorf("process %d of the mirror compares", i)
			}
		}
	}
	l.T.Logf("%d requests have changed blobs; %d processes of the mirror: %v", l.made.Load(), len(l.output), actions)
	if actions["copied"] == 0 || actions["updated"] == 0 || actions["deleted"] == 0 {
		l.T.Errorf("the mirror has done %v", actions)
	}
}
