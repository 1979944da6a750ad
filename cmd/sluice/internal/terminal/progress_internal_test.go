package terminal

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"

	"sluice/internal/units"
	"sluice/test/testenv"
)

func TestLineOfATransfer(t *testing.T) {
	for _, test := range []struct {
		width      int
		name       string
		done, size int64
		rate       float64
		want       string
	}{
		{80, "photo.jpg", 45 << 20, 100 << 20, 5.2 * (1 << 20), "photo.jpg                 [====      ]   45%  45 MiB of 100 MiB 5.2 MiB/s    11s"},
		{100, "photo.jpg", 45 << 20, 100 << 20, 5.2 * (1 << 20), "photo.jpg                           [=========           ]   45%  45 MiB of 100 MiB 5.2 MiB/s    11s"},
		{200, "photo.jpg", 45 << 20, 100 << 20, 0, "photo.jpg" + strings.Repeat(" ", 77) + "[" + strings.Repeat("=", 31) + strings.Repeat(" ", 39) + "]   45%  45 MiB of 100 MiB" + strings.Repeat(" ", 17)},
		{80, "photo.jpg", 0, 100, 0, "photo.jpg                 [          ]    0%     0 B of 100 B                   "},
		{80, "empty", 0, 0, 0, "empty                     [==========]  100%     0 B of 0 B                     "},
		{80, "pipe", 1500, -1, 300, "pipe                                                    1.5 KiB   300 B/s       "},
		{60, "a-long-name-of-a-file-in-a-folder.tar.gz", 1, 2 << 30, 1024, "a-long-name-of-...    0%     1 B of 2.0 GiB 1.0 KiB/s    24d"},
		{40, "photo.jpg", 45 << 20, 100 << 20, 5.2 * (1 << 20), "photo.jpg           45% 5.2 MiB/s    11s"},
		{39, "photo.jpg", 45 << 20, 100 << 20, 5.2 * (1 << 20), "photo.jpg          45% 5.2 MiB/s    11s"},
		{20, "photo.jpg", 45 << 20, 100 << 20, 5.2 * (1 << 20), "45% 5.2 MiB/s 11s"},
		{60, "日本語の名前のファイル", 5, 10, 0, "日本語の名前の...    50%     5 B of 10 B                    "},
		{80, "more than announced", 20, 10, 1, "more than announced       [==========]  100%    20 B of 10 B        1 B/s       "},
	} {
		got := formatLine(test.width, test.name, test.done, test.size, test.rate, units.Bytes)
		if got != test.want || runewidth.StringWidth(got) > test.width {
			t.Errorf("width %d: %q, %d columns\nwant     %q", test.width, got, runewidth.StringWidth(got), test.want)
		}
	}
}

func TestLineOfACount(t *testing.T) {
	const want = "rows                      [====      ]   45%  450000 of 1000000    5200/s  1m46s"
	if got := formatLine(80, "rows", 450_000, 1_000_000, 5200, decimal); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestLinesOfCountedTransfers checks that no bytes are shown if transfers are counted.
func TestLinesOfCountedTransfers(t *testing.T) {
	now := time.Unix(0, 0)
	p := newProgress(io.Discard, false, func() time.Time { return now })
	p.CountTransfers()
	p.Expect(12, 9e9)
	for range 3 {
		p.Start("a", 1e9).End()
	}
	now = now.Add(time.Second)
	testenv.Equal(t, p.totalLine(60), "Total                25%       3 of 12            3/s     3s", "the total on 60 columns")
	testenv.Equal(t, p.totalLine(80), "Total                     [==        ]   25%       3 of 12            3/s     3s", "the total on 80 columns")
	transfer := p.Start("team/photos/summer/001.jpg", 1e9)
	testenv.Equal(t, transfer.line(60), "team/photos/summer/001.jpg", "a name that fits")
	testenv.Equal(t, transfer.line(20), "...os/summer/001.jpg", "the end of a name")
}

func TestTimeLeft(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0s", 0.2: "1s", 59: "59s", 60: "1m00s", 3599: "59m59s", 3600: "1h00m", 86400: "24h00m", 48 * 3600: "2d", 1e30: "100d"} {
		testenv.Equal(t, timeLeft(seconds), want, "timeLeft(%v)", seconds)
	}
}

// TestRate checks that an earlier run's bytes do not count, and that the rate follows a change.
func TestRate(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	var m meter
	m.skip(1 << 30)
	if got := m.rate(start.Add(time.Second)); got != 0 || m.done != 1<<30 {
		t.Errorf("after a skip: rate %v of %d bytes", got, m.done)
	}
	at := start.Add(time.Second)
	for range 20 {
		m.add(at, 1000)
		at = at.Add(time.Second)
		m.rate(at)
	}
	if got := m.rate(at); got < 950 || got > 1000 {
		t.Errorf("rate %v, want about 1000", got)
	}
	for range 20 {
		at = at.Add(time.Second)
		m.rate(at)
	}
	if got := m.rate(at); got > 50 {
		t.Errorf("rate %v after 20 seconds without a byte", got)
	}
	m.add(at, -20_000) // sent again
	if got := m.rate(at.Add(time.Second)); got < 0 || m.done != 1<<30 {
		t.Errorf("after bytes were taken back: rate %v, %d bytes", got, m.done)
	}
}

// TestEstimateAfterAResume checks that an earlier run's bytes are shown at once, and neither that
// nor the time before the first byte distorts the estimate, which is right from the first second on
// at an even rate.
func TestEstimateAfterAResume(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	p := newProgress(io.Discard, false, func() time.Time { return now })
	p.Expect(2, 1600)
	one := p.Start("one", 1000)
	one.Set(600)
	now = now.Add(30 * time.Second) // in which the file is read again
	testenv.Equal(t, strings.Join(strings.Fields(one.line(70)), " "), "one 60% 600 B of 1.0 KiB", "the line before the first byte")
	testenv.Equal(t, strings.Join(strings.Fields(p.totalLine(70)), " "), "Total, 0 of 2 37% 600 B of 1.6 KiB", "the total before the first byte")
	const rate = 40 // bytes per second
	for tenth := range 80 {
		one.Add(rate / 10)
		now = now.Add(time.Second / 10)
		line := strings.Fields(one.line(70))
		if tenth < 9 {
			continue // a rate needs a sample, as tested above
		}
		var speed, left float64
		done := one.Done()
		n, err := fmt.Sscanf(strings.Join(line[len(line)-3:], " "), "%f B/s %fs", &speed, &left)
		if want := math.Ceil(float64(1000-done) / rate); n != 2 || math.Abs(speed-rate) > 0.15*rate || math.Abs(left-want) > 2 {
			t.Fatalf("after %d bytes the line is %q, %v; want about %d B/s and %vs", done-600, line, err, rate, want)
		}
	}
}

// screen records a Progress's drawings, one at a time.
type screen struct {
	mu      sync.Mutex
	written strings.Builder
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.String()
}

// drawToTheEnd draws until the test ends. A Progress cannot be closed otherwise.
func drawToTheEnd(t *testing.T, draw chan<- any) {
	go func() {
		for {
			select {
			case draw <- nil:
			case <-t.Context().Done():
				return
			}
		}
	}()
}

func TestProgressShowsTransfersAndATotal(t *testing.T) {
	var shown screen
	draw := make(chan any)
	now := time.Unix(1_000_000, 0)
	p := newProgress(&shown, true, func() time.Time { return now }, mpb.WithManualRefresh(draw), mpb.WithWidth(80))
	p.Expect(3, 3000)
	first, second := p.Start("first", 1000), p.Start("se\x1b[31mcond", 1000)
	first.Add(400)
	second.Skip(100)
	second.Set(500)
	for range 3 { // when the third request is received, the first drawing is complete
		draw <- nil
	}
	for _, want := range []string{"first ", `"se\x1b[31mcond" `, " 40%   400 B of 1.0 KiB", " 50%   500 B of 1.0 KiB", "Total, 0 of 3 ", " 30%   900 B of 2.9 KiB"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q does not show %q", shown.String(), want)
		}
	}
	drawToTheEnd(t, draw)
	first.End()
	first.End()
	second.End()
	p.Close()
	if p.ended != 2 {
		t.Errorf("%d transfers have ended, want 2", p.ended)
	}
}

// TestProgressOfManyTransfers runs transfers while their lines are drawn, and checks that it ends
// and that messages are shown.
func TestProgressOfManyTransfers(t *testing.T) {
	var shown screen
	p := newProgress(&shown, true, time.Now, mpb.WithAutoRefresh(), mpb.WithRefreshRate(100*time.Microsecond))
	const transfers = 50
	p.Expect(transfers, transfers*1000)
	var group sync.WaitGroup
	for range transfers {
		group.Go(func() {
			one := p.Start("name", 1000)
			for range 10 {
				one.Add(100)
			}
			one.End()
		})
	}
	group.Wait()
	err := p.Print("skipped \x1b]0;x\a")
	p.Close()
	if want := `skipped \x1b]0;x\a` + "\n"; err != nil || !strings.Contains(shown.String(), want) {
		t.Errorf("%q, %v, want %q", shown.String(), err, want)
	}
	if p.ended != transfers || p.moved.done != transfers*1000 {
		t.Errorf("%d transfers of %d bytes have ended", p.ended, p.moved.done)
	}
}

// TestLinesAreBounded starts more transfers than may have lines. When a transfer with a line ends,
// the next one that starts has a line.
func TestLinesAreBounded(t *testing.T) {
	p := newProgress(io.Discard, true, time.Now, mpb.WithAutoRefresh(), mpb.WithRefreshRate(100*time.Microsecond))
	var all []*Transfer
	start := func(wantLine bool) {
		t.Helper()
		all = append(all, p.Start("name", 1000))
		testenv.Equal(t, all[len(all)-1].bar != nil, wantLine, "transfer %d has a line", len(all))
	}
	for i := range 2 * mostLines {
		start(i < mostLines)
	}
	all[0].End()
	all[0].End()
	all[mostLines].End() // which has none
	start(true)
	start(false)
	for _, one := range all {
		one.End()
	}
	p.Close()
	testenv.Equal(t, p.lines, 0, "the lines at the end")
	testenv.Equal(t, p.ended, len(all), "the transfers that have ended")
}

// TestProgressIsForTerminals checks that nothing but messages is written to a file or a pipe, and
// that a quiet one shows nothing on a terminal.
func TestProgressIsForTerminals(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.OK(t, err)
	for _, p := range []*Progress{NewProgress(w, false), NewProgress(w, true)} {
		p.Expect(2, 20)
		one := p.Start("one", 10)
		one.Add(10)
		err = errors.Join(err, p.Print("message"))
		one.End()
		p.Close()
	}
	text, readErr := io.ReadAll(closing{r, w})
	if err := errors.Join(err, readErr); err != nil || string(text) != "message\nmessage\n" {
		t.Errorf("written is %q, %v, want the messages alone", text, err)
	}
}

// closing closes w before it reads from r.
type closing struct {
	r io.Reader
	w io.Closer
}

func (c closing) Read(b []byte) (int, error) {
	if err := c.w.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return 0, err
	}
	return c.r.Read(b)
}

// TestShortTransfersWaitForNoDrawing checks that a transfer that ends soon does not wait for a
// drawing: there is none here until all have ended.
func TestShortTransfersWaitForNoDrawing(t *testing.T) {
	var shown screen
	draw := make(chan any)
	p := newProgress(&shown, true, time.Now, mpb.WithManualRefresh(draw), mpb.WithWidth(80))
	p.delay = time.Hour
	const transfers = 1000
	p.Expect(transfers, transfers)
	for range transfers {
		one := p.Start("short", 1)
		one.Add(1)
		one.End()
	}
	for range 3 {
		draw <- nil
	}
	if got := shown.String(); strings.Contains(got, "short") || !strings.Contains(got, "Total, 1000 of 1000 ") {
		t.Errorf("shown is %q", got)
	}
	drawToTheEnd(t, draw)
	p.Close()
}

// TestDrawingsBeginAtTheFirstColumn checks that characters that the terminal echoes, such as ^C,
// leave nothing behind: each drawing begins at the first column, and clears the screen from there.
func TestDrawingsBeginAtTheFirstColumn(t *testing.T) {
	r, w, err := os.Pipe()
	testenv.OK(t, err)
	draw := make(chan any)
	p := newProgress(lineStart{w}, true, time.Now, mpb.WithManualRefresh(draw), mpb.WithWidth(math.MaxInt16))
	p.columns = func() int { return 40 }
	one := p.Start("one", 10)
	for range 4 {
		draw <- nil
	}
	drawToTheEnd(t, draw)
	one.End()
	p.Close()
	text := testenv.Must(io.ReadAll(closing{r, w}))(t)
	clears := regexp.MustCompile(`\x1b\[\d+A\x1b\[J`).FindAllIndex(text, -1)
	for _, at := range clears {
		if at[0] == 0 || text[at[0]-1] != '\r' {
			t.Errorf("a drawing does not begin at the first column: %q", text)
		}
	}
	if len(clears) < 3 {
		t.Errorf("%d drawings: %q", len(clears), text)
	}
	for line := range strings.Lines(regexp.MustCompile(`\r|\x1b\[\d*[A-Z]`).ReplaceAllString(string(text), "")) {
		if width := runewidth.StringWidth(strings.TrimSuffix(line, "\n")); width > 39 {
			t.Errorf("%d columns: %q", width, line)
		}
	}
}
