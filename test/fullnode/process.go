package fullnode

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/test/testenv"
)

// patience limits every wait for the process. It is far above any expected duration.
const patience = 60 * time.Second

// process is a process that answers each line of JSON with one line, not necessarily in their
// order.
type process struct {
	command *exec.Cmd
	port    int // the first fullnode's
	stdin   io.WriteCloser
	stderr  strings.Builder // read after ended is closed
	ended   chan struct{}   // closed when standard output has ended
	failure error           // of reading it, once ended is closed
	changed atomic.Bool     // it has several fullnodes, or one that was killed

	mu struct {
		sync.Mutex
		last    int
		waiting map[int]chan<- response
	}
}

type response struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  string          `json:"error"`
}

// startProcess starts a process with one fullnode. opt are its options, which become JSON.
func startProcess(opt any) (*process, error) {
	text, err := json.Marshal(opt)
	if err != nil {
		return nil, err
	}
	folder, err := testenv.ClientDir()
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command("node", filepath.Join(folder, "fullnode", "main.mjs"), string(text)), ended: make(chan struct{})}
	p.mu.waiting = map[int]chan<- response{}
	p.command.Stderr = &p.stderr
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(stdout)
	var first struct{ Port int }
	line, err := lines.ReadBytes('\n') // states the fullnode's port
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	go p.read(lines)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("its first line %q: %w", line, err), p.stop())
	}
	p.port = first.Port
	return p, nil
}

// read passes responses on until the process ends.
func (p *process) read(lines *bufio.Reader) {
	defer close(p.ended)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.failure = err
			}
			return
		}
		var r response
		if p.failure = json.Unmarshal(line, &r); p.failure != nil {
			return
		}
		p.mu.Lock()
		waits := p.mu.waiting[r.ID]
		delete(p.mu.waiting, r.ID)
		p.mu.Unlock()
		waits <- r
	}
}

// do runs a command for the fullnode with a number, and decodes its result into result, unless that
// is nil.
func (p *process) do(ctx context.Context, node int, command string, parameters, result any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	response, err := p.send(node, command, parameters)
	if err != nil {
		return err
	}
	select {
	case r := <-response:
		if r.Error != "" {
			return errors.New(r.Error)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(r.Result, result)
	case <-p.ended:
		return errors.Join(errors.New("the process ended"), p.failure)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends a command and returns the channel of its response.
func (p *process) send(node int, command string, parameters any) (<-chan response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.last++
	line, err := json.Marshal(map[string]any{"id": p.mu.last, "node": node, "command": command, "parameters": parameters})
	if err != nil {
		return nil, err
	}
	waits := make(chan response, 1)
	p.mu.waiting[p.mu.last] = waits
	_, err = p.stdin.Write(append(line, '\n'))
	return waits, err
}

// stop ends the process by the end of its standard input. It returns an error if it ended before,
// or if it wrote to standard error.
func (p *process) stop() error {
	err := p.stdin.Close()
	timer := time.AfterFunc(patience, func() { _ = p.command.Process.Kill() })
	defer timer.Stop()
	<-p.ended
	err = errors.Join(err, p.failure, p.command.Wait())
	if p.stderr.Len() > 0 {
		err = errors.Join(err, errors.New(p.stderr.String()))
	}
	return err
}
