//go:build linux

// Command peers measures sluice beside other programs that do comparable work: a bare handler of
// net/http, nginx, Redis, PostgreSQL and versitygw. It starts all of them on loopback addresses,
// sends the same load to each in turns, and prints the medians with their ratios.
//
// `make bench-peers` runs it; with -write it also writes its section of docs/benchmarks.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == bareArgument {
		exit(serveBare(os.Stdin, os.Stdout))
	}
	if len(os.Args) == 3 && os.Args[1] == filesArgument {
		exit(serve(os.Stdout, http.FileServer(http.Dir(os.Args[2]))))
	}
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; the results are medians of them")
	flag.DurationVar(&o.time, "time", 2*time.Second, "time of one measurement, at least 1s; wrk rounds it to seconds")
	flag.StringVar(&o.sluice, "sluice", "", "binary to measure (default: built from the working folder)")
	flag.StringVar(&o.dir, "dir", "", "folder for all data, on the disk to measure (default: a temporary one)")
	flag.BoolVar(&o.write, "write", false, "write the section of docs/benchmarks.md; all groups must be measured")
	only := flag.String("groups", "", "groups to measure, separated by commas (default: all)")
	rows := flag.String("rows", "", "regular expression of the rows to measure (default: all)")
	flag.Parse()
	var err error
	if o.rows, err = regexp.Compile(*rows); err != nil || flag.NArg() > 0 || o.write && (*only != "" || *rows != "") || o.rounds < 1 || o.time < time.Second {
		flag.Usage()
		os.Exit(2)
	}
	o.groups = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, o))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run measures all groups and prints the table.
func run(ctx context.Context, o options) (err error) {
	e := &environment{options: o}
	if e.dir, err = os.MkdirTemp(o.dir, "sluice-peers-"); err != nil {
		return err
	}
	defer func() { err = joinCleanup(err, os.RemoveAll(e.dir)) }()
	if err := e.findPrograms(); err != nil {
		return err
	}
	about, err := describeMachine(e)
	if err != nil {
		return err
	}
	fmt.Println(about)
	var measured []*group
	for _, make := range groups {
		g := make()
		if len(o.groups) > 0 && !slices.Contains(o.groups, g.name) {
			continue
		}
		if err := e.measure(ctx, g); err != nil {
			return err
		}
		fmt.Print(g.text())
		measured = append(measured, g)
	}
	if !o.write {
		return nil
	}
	return writeSection(filepath.Join(e.root, "docs", "benchmarks.md"), section(about, o, measured))
}

// groups are the groups of rows, in table order. Only a group's own servers run while it is
// measured.
var groups = []func() *group{smallGroup, writesGroup, sizesGroup, largeGroup, tlsGroup, nodesGroup, listsGroup, s3Group, latencyGroup}
