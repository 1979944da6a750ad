// Package pgproxy is a proxy between a test and a PostgreSQL server. It fails connections at chosen
// moments and counts requests.
package pgproxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/test/fault"
)

// Proxy forwards connections of pgx to a PostgreSQL server.
type Proxy struct {
	listener net.Listener
	socket   atomic.Pointer[string] // the server's
	DSN      string                 // for the server's database, through the proxy
	// onCommit returns the fault of a COMMIT. With Delay the client loses the connection, and
	// the COMMIT arrives later.
	onCommit func() fault.Kind
	// OnBegin, if it is not nil, is called before each write transaction.
	OnBegin func()
	Refuse  atomic.Bool // refuses connections
	// Requests counts the messages after which the client waits for the server.
	Requests atomic.Int64
	// Connections counts the connections that were not refused.
	Connections atomic.Int64
	// Processor is the time that the server's only processor needs, which all connections share.
	Processor Processor

	mu struct {
		sync.Mutex
		conns map[net.Conn]bool
		late  map[string]chan struct{} // by transaction id; closed when that transaction begins again
	}
	wg sync.WaitGroup
}

// Processor serves work in the order in which it arrives.
type Processor struct {
	mu               sync.Mutex
	Connect, Request atomic.Int64 // nanoseconds for a new connection, and for a request
}

// work waits until the processor has done n nanoseconds of work.
func (p *Processor) work(n int64) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	time.Sleep(time.Duration(n))
}

// New starts a proxy for the database of dsn.
func New(t testing.TB, dsn string, onCommit func() fault.Kind) *Proxy {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, onCommit: onCommit}
	p.ServeFrom(fmt.Sprintf("%s/.s.PGSQL.%d", config.Host, config.Port))
	p.DSN = fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable&search_path=%s",
		config.User, listener.Addr(), config.Database, config.RuntimeParams["search_path"])
	p.mu.conns = map[net.Conn]bool{}
	p.mu.late = map[string]chan struct{}{}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		p.CutAll()
		p.wg.Wait()
	})
	return p
}

// ServeFrom forwards new connections to the server with this socket.
func (p *Proxy) ServeFrom(socket string) { p.socket.Store(&socket) }

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// CutAll closes every connection.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.mu.conns {
		_ = c.Close()
	}
}

func (p *Proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.conns[c] = true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.conns, c)
	_ = c.Close()
}

func (p *Proxy) serve(client net.Conn) {
	p.keep(client)
	defer p.drop(client)
	if p.Refuse.Load() {
		// The sent bytes are read, so that the connection is closed properly.
		_, _ = client.Read(make([]byte, 4<<10))
		return
	}
	p.Connections.Add(1)
	p.Processor.work(p.Processor.Connect.Load())
	server, err := net.Dial("unix", *p.socket.Load())
	if err != nil {
		return
	}
	p.keep(server)
	defer p.drop(server)
	l := &link{Proxy: p, client: client, server: server, inserts: map[string]bool{}, answered: make(chan struct{})}
	p.wg.Go(l.answers)
	_ = l.forward() // both connections are closed in any case
}

// link is a connection through the proxy.
type link struct {
	*Proxy
	client, server net.Conn
	id             string          // the current transaction's
	inserts        map[string]bool // the prepared statements that insert ids, by name
	silent         atomic.Bool     // responses are discarded
	answered       chan struct{}   // closed when the server has closed the connection or its response was discarded
}

// answers forwards the server's messages.
func (l *link) answers() {
	defer close(l.answered)
	defer func() { _ = l.client.Close() }()
	b := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(b)
		if err != nil || l.silent.Load() {
			return
		}
		if _, err := l.client.Write(b[:n]); err != nil {
			return
		}
	}
}

// forward forwards the client's messages one by one. The first has no type, and all begin with
// their length, including the length itself.
func (l *link) forward() error {
	in := bufio.NewReader(l.client)
	for typeLen := 0; ; typeLen = 1 {
		head, err := in.Peek(typeLen + 4)
		if err != nil {
			return err
		}
		message := make([]byte, typeLen+int(binary.BigEndian.Uint32(head[typeLen:])))
		if _, err := io.ReadFull(in, message); err != nil {
			return err
		}
		if typeLen == 1 && (message[0] == 'Q' || message[0] == 'S') { // a query, or the last message of several
			l.Requests.Add(1)
			l.Processor.work(l.Processor.Request.Load())
		}
		switch {
		case typeLen == 1 && message[0] == 'Q' && string(message[5:]) == "COMMIT\x00" && l.id != "":
			err = l.commit(message)
		case typeLen == 1 && (message[0] == 'P' || message[0] == 'B'):
			l.prepared(message[0], message[5:])
			fallthrough
		default:
			_, err = l.server.Write(message)
		}
		if err != nil {
			return err
		}
	}
}

// prepared looks at the message of a prepared statement, Parse or Bind. A transaction begins with
// one that inserts its id.
func (l *link) prepared(kind byte, message []byte) {
	first, rest, _ := bytes.Cut(message, []byte{0})
	if kind == 'P' {
		l.inserts[string(first)] = bytes.HasPrefix(rest, []byte("INSERT INTO transactions"))
		return
	}
	statement, rest, _ := bytes.Cut(rest, []byte{0})
	if !l.inserts[string(statement)] {
		return
	}
	formats := int(binary.BigEndian.Uint16(rest))
	value := rest[2+2*formats+2:] // of the only parameter, the id or its random half
	end := 4 + int(binary.BigEndian.Uint32(value))
	l.begins(string(value[end-8 : end]))
	if l.OnBegin != nil {
		l.OnBegin()
	}
}

// commit forwards a COMMIT, unless it must fail.
func (l *link) commit(message []byte) error {
	forward := func() error {
		_, err := l.server.Write(message)
		return err
	}
	switch l.onCommit() {
	case fault.Fail:
		return fault.ErrFault
	case fault.Lose:
		l.silent.Store(true)
		if err := forward(); err != nil {
			return err
		}
		<-l.answered
		return fault.ErrFault
	case fault.Delay:
		l.silent.Store(true)
		again := l.cutClient()
		<-again
		if err := forward(); err != nil {
			return err
		}
		<-l.answered
		return fault.ErrFault
	default:
		return forward()
	}
}

// begins records that a transaction begins, possibly again.
func (l *link) begins(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id = id
	if again, ok := l.mu.late[id]; ok {
		close(again)
		delete(l.mu.late, id)
	}
}

// cutClient closes the client's connection. The returned channel is closed when the client begins
// the same transaction on another connection.
func (l *link) cutClient() <-chan struct{} {
	again := make(chan struct{})
	l.mu.Lock()
	l.mu.late[l.id] = again
	l.mu.Unlock()
	_ = l.client.Close()
	return again
}
