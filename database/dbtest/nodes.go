package dbtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/database"
	"sluice/database/whole"
)

var nodeChecks = []Check{
	NewCheck("nodes/life", nodeLife),
	NewCheck("nodes/racing", nodeRacing),
	NewCheck("nodes/listed", nodesListed),
}

// errDisagree is the error of a node that does not accept another node's settings.
var errDisagree = errors.New("other settings")

// joins lets a node join, and ends the check unless it gets these settings from other nodes.
func (p *Probe) joins(s whole.Database, node, settings string, ttl time.Duration, want ...string) {
	var seen []string
	err := s.Join(p.Ctx, node, settings, database.Node{}, ttl, func(others []string) error {
		seen = slices.Sorted(slices.Values(others))
		return nil
	})
	p.OK(err, "join of %s", node)
	p.Must(slices.Equal(seen, want), "%s sees the other nodes' settings %q, want %q", node, seen, want)
}

func nodeLife(p *Probe) {
	other := p.Open()
	p.joins(p.Store, "a", "1", time.Minute)
	p.joins(other, "b", "2\x00", time.Minute, "1")
	p.advanceEngine(30 * time.Second)
	p.joins(other, "b", "3", time.Minute, "1") // renewed, with another node
	p.Is(p.Store.Join(p.Ctx, "c", "4", database.Node{}, time.Minute, func([]string) error { return errDisagree }), errDisagree, "join of a node that disagrees")
	p.Is(p.Store.Join(p.Ctx, "b", "4", database.Node{}, time.Hour, func([]string) error { return errDisagree }), errDisagree, "renewal of a node that disagrees")
	p.joins(p.Store, "a", "1", 30*time.Second, "3")
	p.Reopen()
	p.advanceEngine(30*time.Second - time.Microsecond)
	p.joins(p.Store, "d", "", time.Second, "1", "3")
	p.advanceEngine(time.Microsecond)
	p.joins(p.Store, "d", "", time.Minute, "3") // a has expired
	p.OK(p.Store.Leave(p.Ctx, "d"), "leave")
	p.OK(p.Store.Leave(p.Ctx, "d"), "repeated leave")
	p.advanceEngine(30*time.Second - time.Microsecond)
	p.joins(p.Store, "e", "5", time.Minute, "3")
	p.advanceEngine(time.Microsecond)
	p.joins(p.Store, "f", "6", time.Minute, "5") // b has expired
}

// nodeRacing has nodes that disagree with all other nodes join concurrently: one must succeed.
func nodeRacing(p *Probe) {
	handles := []whole.Database{p.Store, p.Open()}
	for round := range 5 {
		errs := Race(8, func(i int) error {
			return handles[i%2].Join(p.Ctx, fmt.Sprint(round, "-", i), "", database.Node{}, time.Minute, func(others []string) error {
				if len(others) > 0 {
					return errDisagree
				}
				return nil
			})
		})
		joined := 0
		for _, err := range errs {
			if err == nil {
				joined++
			} else {
				p.Is(err, errDisagree, "join that lost")
			}
		}
		p.Must(joined == 1, "round %d: %d of 8 that disagree have joined", round, joined)
		p.advanceEngine(time.Minute)
	}
}

// nodesListed lists what nodes publish, within their ttl, with one leader.
func nodesListed(p *Probe) {
	agrees := func([]string) error { return nil }
	join := func(s whole.Database, id string, n database.Node, ttl time.Duration) {
		p.OK(s.Join(p.Ctx, id, "", n, ttl, agrees), "join of %s", id)
	}
	listed := func(want ...database.Node) {
		got, err := p.Open().ListNodes(p.Ctx)
		p.OK(err, "list of nodes")
		p.Must(slices.Equal(got, want), "nodes %+v, want %+v", got, want)
	}
	since := p.Store.Now().Truncate(time.Microsecond)
	a := database.Node{Name: "a\x00:80", Version: "1.2.3", Since: since, Leads: true}
	b := database.Node{Name: "b", Version: "1.2.4", Reason: "bytes: the store is gone", Since: since.Add(time.Second)}
	listed()
	join(p.Store, "2", b, time.Minute)
	join(p.Open(), "9", a, 2*time.Minute)
	listed(a, b)
	b.Reason, b.Since = "", since.Add(2*time.Second)
	join(p.Store, "2", b, time.Minute)
	listed(a, b)
	b.Leads, a.Leads = true, false
	join(p.Store, "2", b, time.Minute)
	listed(a, b)
	p.Is(p.Store.Join(p.Ctx, "3", "", a, time.Hour, func([]string) error { return errDisagree }), errDisagree, "join of a node that disagrees")
	p.advanceEngine(time.Minute - time.Microsecond)
	listed(a, b)
	p.advanceEngine(time.Microsecond)
	listed(a)
	p.OK(p.Store.Leave(p.Ctx, "9"), "leave")
	listed()
}
