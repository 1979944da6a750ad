package terminal

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"sluice/internal/units"
)

// Progress shows transfers on a terminal: one line for each that runs for a while, and one for all
// of them if there are several. If its output is not a terminal, or if it is quiet, it shows only
// the lines of Print. Its methods may be called concurrently.
type Progress struct {
	out io.Writer
	now func() time.Time
	box *mpb.Progress // nil if no bars are shown

	columns func() int    // the terminal's width; nil: mpb knows it
	delay   time.Duration // after which a transfer that still runs gets a line

	// mu guards the numbers. It must not be held while box or a bar is used: they call functions
	// that lock it, and wait for them.
	mu       sync.Mutex
	expected count // announced by Expect
	started  count // started by Start
	ended    int
	ends     meter // of ended
	moved    meter // of all transfers
	counting bool  // lines show no bytes

	bars  sync.Mutex
	total *mpb.Bar // guarded by bars; nil until there are several transfers
	lines int      // of transfers; guarded by bars
}

// count is a number of transfers and of their bytes.
type count struct {
	transfers int
	bytes     int64
}

// NewProgress returns the progress to show on out. The caller must Close it.
func NewProgress(out io.Writer, quiet bool) *Progress {
	f, isFile := out.(*os.File)
	if quiet || !isFile || !term.IsTerminal(int(f.Fd())) {
		return newProgress(out, false, time.Now)
	}
	if runtime.GOOS == "windows" { // where mpb calls the console's functions
		p := newProgress(out, true, time.Now)
		p.delay = showDelay
		return p
	}
	p := newProgress(lineStart{f}, true, time.Now, mpb.WithAutoRefresh(), mpb.WithWidth(math.MaxInt16))
	p.delay = showDelay
	p.columns = func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return defaultColumns
		}
		return columns
	}
	return p
}

const defaultColumns = 80

// mostLines is how many transfers have a line at a time, so that all lines fit on a terminal.
const mostLines = 16

// showDelay is the time after which a transfer gets a line. Removing a line takes as long as a
// refresh, which would limit how many small files a second may have.
const showDelay = 300 * time.Millisecond

// lineStart begins each drawing at the first column: the terminal echoes typed characters, such as
// ^C, where the cursor is, and mpb then would not remove the lines' first columns.
type lineStart struct{ *os.File }

func (l lineStart) Write(b []byte) (int, error) {
	n, err := l.File.Write(append([]byte{'\r'}, b...))
	return max(n-1, 0), err
}

func newProgress(out io.Writer, bars bool, now func() time.Time, options ...mpb.ContainerOption) *Progress {
	p := &Progress{out: out, now: now}
	if bars {
		p.box = mpb.New(append([]mpb.ContainerOption{mpb.WithOutput(out), mpb.WithRefreshRate(100 * time.Millisecond)}, options...)...)
	}
	return p
}

// Expect announces transfers that will start, with their bytes in all. The line for all transfers
// shows the sum so far.
func (p *Progress) Expect(transfers int, bytes int64) {
	p.mu.Lock()
	p.expected.transfers += transfers
	p.expected.bytes += bytes
	p.mu.Unlock()
	p.showTotal()
}

// CountTransfers makes the line for all transfers count them instead of their bytes, and the lines
// for each show only their names. It is for transfers that take as long whatever their size, and is
// called before any starts.
func (p *Progress) CountTransfers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counting = true
}

// Start shows a transfer with size bytes, or an unknown number if size is negative. The caller must
// call End.
func (p *Progress) Start(name string, size int64) *Transfer {
	return p.start(&Transfer{progress: p, name: Name(name), size: size, format: units.Bytes, bytes: true})
}

// StartCount is Start for a number of things that are not bytes. The line for all transfers does
// not include it.
func (p *Progress) StartCount(name string, number int64) *Transfer {
	return p.start(&Transfer{progress: p, name: Name(name), size: number, format: decimal})
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func (p *Progress) start(t *Transfer) *Transfer {
	if t.bytes {
		p.mu.Lock()
		p.started.transfers++
		p.started.bytes += max(t.size, 0)
		p.mu.Unlock()
	}
	switch {
	case p.box == nil:
	case p.delay == 0:
		t.show()
	default:
		time.AfterFunc(p.delay, t.show)
	}
	p.showTotal()
	return t
}

// show adds a line for a transfer that has not ended.
func (t *Transfer) show() {
	p := t.progress
	p.bars.Lock()
	defer p.bars.Unlock()
	p.mu.Lock()
	ended := t.ended
	p.mu.Unlock()
	if !ended && p.lines < mostLines {
		p.lines++
		t.bar = p.add(0, t.line, mpb.BarRemoveOnComplete())
	}
}

func (p *Progress) add(priority int, line func(width int) string, options ...mpb.BarOption) *mpb.Bar {
	text := decor.Any(func(s decor.Statistics) string {
		width := s.AvailableWidth
		if p.columns != nil {
			width = p.columns()
		}
		return line(max(width-1, 1))
	})
	return p.box.New(0, mpb.NopStyle(), append(options, mpb.BarFillerTrim(), mpb.BarPriority(priority), mpb.PrependDecorators(text))...)
}

// totalPriority places the line of all transfers below the other lines.
const totalPriority = math.MaxInt32

// showTotal adds the line of all transfers if there are several.
func (p *Progress) showTotal() {
	p.mu.Lock()
	several := max(p.expected.transfers, p.started.transfers) >= 2
	p.mu.Unlock()
	p.bars.Lock()
	defer p.bars.Unlock()
	if several && p.box != nil && p.total == nil {
		p.total = p.add(totalPriority, p.totalLine)
	}
}

func (p *Progress) totalLine(width int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	transfers, bytes := max(p.expected.transfers, p.started.transfers), max(p.expected.bytes, p.started.bytes)
	if p.counting {
		return formatLine(width, "Total", int64(p.ended), int64(transfers), p.ends.rate(p.now()), decimal)
	}
	name := fmt.Sprintf("Total, %d of %d", p.ended, transfers)
	return formatLine(width, name, p.moved.done, bytes, p.moved.rate(p.now()), units.Bytes)
}

// Print prints a line above the transfers' lines. The line is escaped by Text.
func (p *Progress) Print(line string) error {
	out := p.out
	if p.box != nil {
		out = p.box
	}
	_, err := fmt.Fprintln(out, Text(line))
	return err
}

// Close removes all lines from the terminal except those that Print printed.
func (p *Progress) Close() {
	if p.box == nil {
		return
	}
	p.bars.Lock()
	if p.total != nil {
		p.total.Abort(true)
	}
	p.bars.Unlock()
	p.box.Wait()
}

// Transfer is one transfer in a Progress.
type Transfer struct {
	progress *Progress
	name     string
	size     int64
	format   func(int64) string
	bytes    bool     // reports whether it belongs to the line for all transfers
	bar      *mpb.Bar // guarded by progress.bars; nil if it has no line
	moved    meter    // guarded by progress.mu
	set      bool     // guarded by progress.mu: reports whether Set was called
	ended    bool     // guarded by progress.mu
}

// Set sets the number of bytes that are done. The first call's value counts as an earlier run's
// work, as for Skip. It may be less than before, if bytes are sent again.
func (t *Transfer) Set(done int64) {
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	if !t.set {
		t.set = true
		t.skip(done - t.moved.done)
		return
	}
	t.add(done - t.moved.done)
}

// Done returns the number of bytes that are done.
func (t *Transfer) Done() int64 {
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	return t.moved.done
}

// Add adds n to the number of bytes that are done.
func (t *Transfer) Add(n int64) {
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	t.add(n)
}

func (t *Transfer) add(n int64) {
	now := t.progress.now()
	t.moved.add(now, n)
	if t.bytes {
		t.progress.moved.add(now, n)
	}
}

// Skip adds n to the number of bytes that are done, without counting them for the rate: an earlier
// run has transferred them.
func (t *Transfer) Skip(n int64) {
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	t.skip(n)
}

func (t *Transfer) skip(n int64) {
	t.moved.skip(n)
	if t.bytes {
		t.progress.moved.skip(n)
	}
}

// End removes the transfer's line, whether it succeeded or not. Repeated, it has no effect.
func (t *Transfer) End() {
	t.progress.mu.Lock()
	ended := t.ended
	if !ended {
		t.ended = true
		if t.bytes {
			t.progress.ended++
			t.progress.ends.add(t.progress.now(), 1)
		}
	}
	t.progress.mu.Unlock()
	t.progress.bars.Lock()
	bar := t.bar
	if !ended && bar != nil {
		t.progress.lines--
	}
	t.progress.bars.Unlock()
	if !ended && bar != nil {
		bar.Abort(true)
		bar.Wait()
	}
}

func (t *Transfer) line(width int) string {
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	if t.progress.counting && t.bytes {
		return lastColumns(t.name, width)
	}
	return formatLine(width, t.name, t.moved.done, t.size, t.moved.rate(t.progress.now()), t.format)
}

// meter counts bytes and measures their rate.
type meter struct {
	done   int64
	counts int64     // of done, those that count for the rate
	since  time.Time // the first byte that counts
	sample time.Time // the last sample
	last   int64     // counts at the last sample
	smooth float64   // bytes per second, a moving average
}

// sampleTime is the minimum time between two samples for a rate, and rateMemory the time over which
// rates are averaged.
const (
	sampleTime = 500 * time.Millisecond
	rateMemory = 5 * time.Second
)

func (m *meter) skip(n int64) { m.done += n }

func (m *meter) add(now time.Time, n int64) {
	if m.since.IsZero() {
		m.since, m.sample = now, now
	}
	m.done += n
	m.counts += n
}

// rate returns the current rate in bytes per second, or 0 if it is not known yet.
func (m *meter) rate(now time.Time) float64 {
	elapsed := now.Sub(m.sample)
	if m.since.IsZero() || elapsed < sampleTime {
		return m.smooth
	}
	current := max(float64(m.counts-m.last), 0) / elapsed.Seconds()
	if m.sample.Equal(m.since) {
		m.smooth = current
	} else {
		weight := math.Exp(-elapsed.Seconds() / rateMemory.Seconds())
		m.smooth = weight*m.smooth + (1-weight)*current
	}
	m.sample, m.last = now, m.counts
	return m.smooth
}

// formatLine returns a line of at most width columns: the name, a bar, the size done, the rate and
// the time left, in columns of fixed widths. If it does not fit, the bar is left out first, then
// the name's end, and then the sizes.
func formatLine(width int, name string, done, size int64, rate float64, format func(int64) string) string {
	numbers := fmt.Sprintf("%7s", format(done))
	if size >= 0 {
		numbers = fmt.Sprintf("%3d%% %7s of %-7s", percent(done, size), format(done), format(size))
	}
	speed, left := "", ""
	if rate >= 1 {
		speed = format(int64(rate)) + "/s"
		if size > done {
			left = timeLeft(float64(size-done) / rate)
		}
	}
	const gap, minName = 2, 16
	rates := fmt.Sprintf(" %9s %6s", speed, left)
	if size >= 0 && width-len(numbers+rates)-gap < minName/2 {
		numbers = fmt.Sprintf("%3d%%", percent(done, size))
	}
	numbers += rates
	barWidth := 12 + max(width-defaultColumns, 0)/2 // on a wide terminal the bar and the name are longer
	room := width - len(numbers) - gap
	if room < minName/2 {
		return runewidth.Truncate(strings.Join(strings.Fields(numbers), " "), width, "")
	}
	bar := ""
	if size >= 0 && room-barWidth-gap >= minName {
		bar = formatBar(barWidth, done, size) + strings.Repeat(" ", gap)
		room -= len(bar)
	}
	name = runewidth.FillRight(runewidth.Truncate(name, room, "..."), room)
	return name + strings.Repeat(" ", gap) + bar + numbers
}

// lastColumns returns a name's end if it does not fit: there, names in one folder differ.
func lastColumns(name string, width int) string {
	if over := runewidth.StringWidth(name) - width; over > 0 {
		return runewidth.TruncateLeft(name, over+len("..."), "...")
	}
	return name
}

func percent(done, size int64) int {
	if size == 0 {
		return 100
	}
	return int(min(float64(done)/float64(size)*100, 100))
}

func formatBar(width int, done, size int64) string {
	inner := width - 2
	full := inner * percent(done, size) / 100
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", inner-full) + "]"
}

// timeLeft returns a time in at most six characters.
func timeLeft(seconds float64) string {
	s := int64(min(math.Ceil(seconds), 100*24*3600))
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd", s/(24*3600))
	}
}
