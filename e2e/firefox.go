package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"sluice/test/testenv"
)

// Firefox is a headless Firefox with one window. It is driven by its protocol Marionette over TCP:
// a message is an array in JSON behind its length and a colon.
type Firefox struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
	sent int
}

// marionettePort matches the line that Firefox prints when it can be driven.
var marionettePort = regexp.MustCompile(`Listening on port (\d+)`)

// StartFirefox starts a Firefox with a profile of its own, and ends it when the test ends.
func StartFirefox(t testing.TB) *Firefox {
	t.Helper()
	profile := t.TempDir()
	testenv.OK(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(`user_pref("marionette.port", 0);`), 0o600))
	command := exec.Command(testenv.Must(testenv.FirefoxPath())(t), "--headless", "--marionette", "--no-remote", "--profile", profile)
	command.Env = append(os.Environ(), "HOME="+profile, "MOZ_CRASHREPORTER_DISABLE=1")
	out, in := io.Pipe()
	command.Stdout, command.Stderr = in, in
	command.WaitDelay = time.Second // its processes have the pipe
	testenv.OK(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill() // it has ended, unless it was not ready
		_ = command.Wait()         // it may end by a signal
		_ = in.Close()             // never fails
	})
	ports := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if found := marionettePort.FindStringSubmatch(lines.Text()); found != nil {
				ports <- found[1]
			}
		}
	}()
	f := &Firefox{t: t}
	select {
	case port := <-ports:
		f.conn = testenv.Must(net.Dial("tcp", "127.0.0.1:"+port))(t)
	case <-time.After(Patience):
		t.Fatalf("Firefox was not ready within %v", Patience)
	}
	f.in = bufio.NewReader(f.conn)
	testenv.Must(f.receive())(t) // its greeting
	t.Cleanup(func() {
		f.call("Marionette:Quit", map[string]any{"flags": []string{"eForceQuit"}}, nil)
		_ = f.conn.Close() // it may have closed it
	})
	f.call("WebDriver:NewSession", map[string]any{}, nil)
	f.call("WebDriver:SetTimeouts", map[string]any{"script": Patience.Milliseconds()}, nil)
	return f
}

// receive reads a message.
func (f *Firefox) receive() (json.RawMessage, error) {
	size := 0
	if err := f.conn.SetReadDeadline(time.Now().Add(2 * Patience)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fscanf(f.in, "%d:", &size); err != nil {
		return nil, err
	}
	message := make([]byte, size)
	_, err := io.ReadFull(f.in, message)
	return message, err
}

// call sends a command, and decodes its result unless into is nil.
func (f *Firefox) call(name string, parameters, into any) {
	f.t.Helper()
	f.sent++
	message := AsJSON(f.t, []any{0, f.sent, name, parameters})
	_, err := fmt.Fprintf(f.conn, "%d:%s", len(message), message)
	testenv.OK(f.t, err)
	var refused *struct{ Error, Message string }
	reply := []any{nil, nil, &refused, &into}
	testenv.OK(f.t, json.Unmarshal(testenv.Must(f.receive())(f.t), &reply))
	if refused != nil {
		f.t.Fatalf("Firefox refused %s: %s: %s", name, refused.Error, refused.Message)
	}
}

// Open loads a page.
func (f *Firefox) Open(url string) {
	f.t.Helper()
	f.call("WebDriver:Navigate", map[string]any{"url": url}, nil)
}

// Resize gives the page a size, in pixels. A window of Firefox has at least 500 in width.
func (f *Firefox) Resize(width, height int) {
	f.t.Helper()
	var bars [2]int // of the window, around the page
	f.Run("return [outerWidth - innerWidth, outerHeight - innerHeight]", &bars)
	f.call("WebDriver:SetWindowRect", map[string]any{"width": width + bars[0], "height": height + bars[1]}, nil)
}

// Run runs a function's body in the page, waits if it returns a promise, and decodes the result
// unless into is nil.
func (f *Firefox) Run(script string, into any) {
	f.t.Helper()
	var result struct{ Value json.RawMessage }
	f.call("WebDriver:ExecuteScript", map[string]any{"script": script, "args": []any{}}, &result)
	if into != nil {
		testenv.OK(f.t, json.Unmarshal(result.Value, into))
	}
}

// Until waits until an expression is true.
func (f *Firefox) Until(expression string) {
	f.t.Helper()
	var text string
	f.Run(fmt.Sprintf(`const ends = Date.now() + %d;
		return new Promise((resolve) => (function again() {
			if (%s) resolve("");
			else if (Date.now() > ends) resolve(document.body.innerText || "an empty page");
			else setTimeout(again, 20);
		})());`, Patience.Milliseconds()/2, expression), &text)
	if text != "" {
		f.t.Fatalf("%s was never true; the page: %s", expression, text)
	}
}
