package httpconn

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/test/testenv"
)

// part is a Positioned: the rest of a file, or of a part of it. It counts the bytes that are read
// from it.
type part struct {
	*io.SectionReader
	raw  syscall.RawConn
	read int
}

func (p *part) Read(b []byte) (int, error) {
	n, err := p.SectionReader.Read(b)
	p.read += n
	return n, err
}

func (p *part) Position() (syscall.RawConn, int64) {
	_, base, _ := p.Outer()
	at, err := p.Seek(0, io.SeekCurrent)
	if err != nil {
		panic(err)
	}
	return p.raw, base + at
}

// newPart returns a file's part that begins at an offset. The file's position is not used.
func newPart(t *testing.T, f *os.File, offset int64) *part {
	t.Helper()
	return &part{SectionReader: io.NewSectionReader(f, offset, 1<<40), raw: testenv.Must(f.SyscallConn())(t)}
}

// newFile returns an open file with this content. Its position is in the middle.
func newFile(t *testing.T, content []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	testenv.OK(t, os.WriteFile(path, content, 0o600))
	f := testenv.Must(os.Open(path))(t)
	testenv.AtEnd(t, f.Close)
	testenv.OK(t, testenv.Error(f.Seek(int64(len(content)/2), io.SeekStart)))
	return f
}

// numbered returns n bytes that differ from each other at every distance.
func numbered(n int) []byte {
	all := make([]byte, n)
	for i := range all {
		all[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return all
}

// receive returns the bytes that a client receives until the end.
func receive(t *testing.T, client io.Reader) <-chan []byte {
	received := make(chan []byte, 1)
	go func() {
		all, err := io.ReadAll(client)
		testenv.Check(t, err)
		received <- all
	}()
	return received
}

// same fails the test unless these are the bytes that the client should have received.
func same(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("the client received %d bytes, want %d", len(got), len(want))
	}
}

// TestSharedFileIsSent sends parts of one file over several connections at once, each with a held
// head. Nothing is read into the process, no connection disturbs another, and the file's position
// remains.
func TestSharedFileIsSent(t *testing.T) {
	content := numbered(5 << 20)
	f := newFile(t, content)
	var all sync.WaitGroup
	for i := range 4 {
		conn, client := pair(t)
		received := receive(t, client)
		all.Go(func() {
			offset, n := int64(i*1000), int64(4<<20+i)
			head := bytes.Repeat([]byte{byte('a' + i)}, 500)
			p := newPart(t, f, offset)
			for range 2 { // the second one follows the first, without a head
				conn.Hold()
				if _, err := conn.Write(head); err != nil {
					t.Errorf("Write: %v", err)
				}
				limited := &io.LimitedReader{R: p, N: n}
				if sent, err := conn.ReadFrom(limited); sent != n || err != nil || limited.N != 0 {
					t.Errorf("%d of %d bytes, %v, and %d are left", sent, n, err, limited.N)
				}
				n, head = int64(i+1), nil
			}
			testenv.Check(t, conn.Release())
			testenv.Check(t, conn.CloseWrite())
			want := append(bytes.Repeat([]byte{byte('a' + i)}, 500), content[i*1000:i*1000+4<<20+2*i+1]...)
			if got := <-received; !bytes.Equal(got, want) || conn.Sent() != int64(len(want)) {
				t.Errorf("connection %d: the client received %d bytes, and %d were sent, want %d", i, len(got), conn.Sent(), len(want))
			}
			testenv.Equal(t, p.read, 0, "bytes that were read")
		})
	}
	all.Wait()
	testenv.Equal(t, testenv.Must(f.Seek(0, io.SeekCurrent))(t), int64(len(content)/2), "the file's position")
}

// TestFileThatEndsIsSentAsFarAsItGoes sends more than a file has.
func TestFileThatEndsIsSentAsFarAsItGoes(t *testing.T) {
	conn, client := pair(t)
	received := receive(t, client)
	content := numbered(3000)
	n, err := conn.ReadFrom(&io.LimitedReader{R: newPart(t, newFile(t, content), 1000), N: 5000})
	testenv.OK(t, err)
	testenv.Equal(t, n, 2000, "bytes that were sent")
	testenv.OK(t, conn.CloseWrite())
	same(t, <-received, content[1000:])
}

// TestSlowReceiverOfAFile sends a file to a client that does not read. The deadline ends that, even
// one that was set while it went on, and the bytes that were sent are counted.
func TestSlowReceiverOfAFile(t *testing.T) {
	conn, client := pair(t)
	content := numbered(64 << 20)
	p := newPart(t, newFile(t, content), 0)
	testenv.OK(t, conn.SetWriteDeadline(time.Now().Add(time.Hour)))
	conn.Hold()
	mustWrite(t, conn, []byte("head"))
	ended := make(chan error)
	var n int64
	limited := &io.LimitedReader{R: p, N: int64(len(content))}
	go func() {
		var err error
		n, err = conn.ReadFrom(limited)
		ended <- err
	}()
	first := make([]byte, 4)
	testenv.OK(t, testenv.Error(io.ReadFull(client, first)))
	testenv.OK(t, conn.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	testenv.Is(t, <-ended, os.ErrDeadlineExceeded, "the end")
	if n <= 0 || n >= int64(len(content)) || limited.N != int64(len(content))-n {
		t.Errorf("%d bytes were sent, and %d are left", n, limited.N)
	}
	if _, at := p.Position(); at != n {
		t.Errorf("the source is at %d after %d bytes", at, n)
	}
	testenv.Equal(t, conn.Sent(), 4+n, "all bytes that were sent")
	testenv.OK(t, conn.SetWriteDeadline(time.Time{}))
	testenv.OK(t, conn.CloseWrite())
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, content[:n]) {
		t.Errorf("the client received %d bytes, %v, want %d", len(got), err, n)
	}
}

// TestHeadThatIsLostBeforeAFile sends a file after a deadline, with a head that is held.
func TestHeadThatIsLostBeforeAFile(t *testing.T) {
	conn, _ := pair(t)
	p := newPart(t, newFile(t, numbered(1000)), 0)
	conn.Hold()
	mustWrite(t, conn, []byte("head"))
	testenv.OK(t, conn.SetWriteDeadline(time.Unix(1, 0)))
	for range 2 { // later the deadline is another, and the head is lost nevertheless
		n, err := conn.ReadFrom(&io.LimitedReader{R: p, N: 1000})
		testenv.Is(t, err, os.ErrDeadlineExceeded, "ReadFrom")
		testenv.Equal(t, n+conn.Sent(), 0, "bytes that were sent")
		testenv.OK(t, conn.SetWriteDeadline(time.Time{}))
	}
}

// TestFileThatCannotBeSentIsRead sends a source that sendfile refuses, one that has no file, and a
// file over a connection that is no socket.
func TestFileThatCannotBeSentIsRead(t *testing.T) {
	content := numbered(100_000)
	for name, spoil := range map[string]func(*part, *Conn){
		"a folder": func(p *part, _ *Conn) {
			folder := testenv.Must(os.Open(t.TempDir()))(t)
			testenv.AtEnd(t, folder.Close)
			p.raw = testenv.Must(folder.SyscallConn())(t)
		},
		"no file":   func(p *part, _ *Conn) { p.raw = nil },
		"no socket": func(_ *part, conn *Conn) { conn.Transport = struct{ Transport }{conn.Transport} },
	} {
		t.Run(name, func(t *testing.T) {
			conn, client := pair(t)
			received := receive(t, client)
			p := newPart(t, newFile(t, content), 0)
			spoil(p, conn)
			conn.Hold()
			mustWrite(t, conn, []byte("head"))
			n, err := conn.ReadFrom(&io.LimitedReader{R: p, N: int64(len(content))})
			if n != int64(len(content)) || err != nil || p.read != len(content) {
				t.Errorf("%d bytes were sent and %d read, %v", n, p.read, err)
			}
			testenv.OK(t, conn.CloseWrite())
			same(t, <-received, append([]byte("head"), content...))
		})
	}
}
