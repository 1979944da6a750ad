package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Switch is an Ethernet switch to which this machine is connected, and machines with a network of
// their own. Its addresses begin with 10.231. It needs root.
type Switch struct {
	tb       testing.TB
	name     string
	net      int // the third byte of its addresses
	machines int
}

// NewSwitch creates a switch. It is removed when the test ends, after all that was started on its
// machines. It calls Require for NetworkNamespaces.
func NewSwitch(tb testing.TB) *Switch {
	tb.Helper()
	Require(tb, NetworkNamespaces)
	for attempt := 1; ; attempt++ {
		s := &Switch{tb: tb, net: rand.IntN(256)}
		s.name = fmt.Sprintf("sluice-sw%d", s.net)
		err := ip("link", "add", s.name, "type", "bridge")
		if err == nil {
			tb.Cleanup(func() { OK(tb, ip("link", "del", s.name)) })
			OK(tb, errors.Join(ip("addr", "add", s.address(1)+"/24", "dev", s.name), ip("link", "set", s.name, "up")))
			return s
		}
		if attempt == 10 { // other tests have those numbers, or it fails for another reason
			tb.Fatal(err)
		}
	}
}

func (s *Switch) address(machine int) string { return fmt.Sprintf("10.231.%d.%d", s.net, machine) }

// Machine is a machine with a network of its own, in which processes can be started.
type Machine struct {
	Address string

	of   *Switch
	name string // of its network namespace
	port string // at the switch
}

// NewMachine connects a machine to the switch.
func (s *Switch) NewMachine() *Machine {
	s.tb.Helper()
	s.machines++
	number := s.machines + 1 // the first is this machine
	m := &Machine{Address: s.address(number), of: s, name: fmt.Sprintf("%s-%d", s.name, number), port: fmt.Sprintf("sluice-%d-%d", s.net, number)}
	OK(s.tb, ip("netns", "add", m.name))
	s.tb.Cleanup(func() { OK(s.tb, ip("netns", "del", m.name)) })
	OK(s.tb, ip("link", "add", m.port, "type", "veth", "peer", "name", "eth0", "netns", m.name))
	// A connection that nobody has answered keeps the namespace for minutes, but not its link.
	s.tb.Cleanup(func() { OK(s.tb, ip("link", "del", m.port)) })
	OK(s.tb, ip("link", "set", m.port, "master", s.name, "up"))
	for _, line := range []string{"addr add " + m.Address + "/24 dev eth0", "link set eth0 up", "link set lo up"} {
		OK(s.tb, m.ip(strings.Fields(line)...))
	}
	return m
}

// Unplug pulls the machine's cable, and Plug puts it in again.
func (m *Machine) Unplug() error { return ip("link", "set", m.port, "down") }

// Plug ends Unplug's effect.
func (m *Machine) Plug() error { return ip("link", "set", m.port, "up") }

// Mute drops all that the machine sends, until Unmute: packets to it arrive, and nobody gets an
// error.
func (m *Machine) Mute() error { return m.blackhole("add") }

// Unmute ends Mute's effect.
func (m *Machine) Unmute() error { return m.blackhole("del") }

func (m *Machine) blackhole(change string) error {
	// Two halves are more specific than the connected network.
	return errors.Join(m.ip("route", change, "blackhole", m.of.address(0)+"/25"), m.ip("route", change, "blackhole", m.of.address(128)+"/25"))
}

func (m *Machine) ip(args ...string) error { return ip(append([]string{"-n", m.name}, args...)...) }

// enter moves the calling thread to the machine, with the processes that it starts.
func (m *Machine) enter() error {
	namespace, err := os.Open(filepath.Join("/run/netns", m.name))
	if err != nil {
		return err
	}
	return errors.Join(unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET), namespace.Close())
}

// StartPostgresOn is StartPostgres for a server that other machines reach at the machine's address.
// Its settings, of the form name=value, are kept through restarts.
func StartPostgresOn(tb testing.TB, m *Machine, settings ...string) *PostgresServer {
	tb.Helper()
	Require(tb, PostgreSQL)
	return startedFor(tb, func() (*PostgresServer, error) {
		return newServer(rootFor(tb), m.server(settings), (*PostgresServer).initialize)
	})
}

// StartStandbyOn is StartStandby for a server on a machine.
func StartStandbyOn(tb testing.TB, m *Machine, primary *PostgresServer, settings ...string) *PostgresServer {
	tb.Helper()
	return startedFor(tb, func() (*PostgresServer, error) {
		return newServer(rootFor(tb), m.server(settings), primary.backUp)
	})
}

func (m *Machine) server(settings []string) *PostgresServer {
	return &PostgresServer{address: m.Address, enter: m.enter, settings: append([]string{"listen_addresses=" + m.Address}, settings...)}
}
