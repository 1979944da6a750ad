// Command mutants checks that the tests detect faults. It plants each fault of faults.txt and runs
// the tests that the fault names: one of them must fail. It also mutates the operators in packages
// with quick tests, and runs the package's tests on each mutation: one must fail, unless
// survivors.txt has the reason why none can. It does not change the tree.
//
// make mutants runs it. CI does not, because it takes about an hour. The results of planted faults
// can be kept in a file, so that a run that was interrupted goes on.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"sluice/test/testenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := flags.String("run", "", "plant the faults whose name matches this regular expression, and mutate no packages")
	shard := flags.String("shard", "", "plant one part of the faults, such as 2/4 for the second of four, and mutate no packages")
	results := flags.String("results", "", "append the results of planted faults to this file, and do not plant again a fault that it has for the same code and tests")
	summary := flags.Bool("summary", false, "plant and mutate nothing: merge the results files that are the arguments, and print each fault's result in this tree")
	packages := flags.String("packages", "", "mutate these packages, folders separated by commas, and plant no faults")
	limit := flags.Duration("timeout", 5*time.Minute, "the time that the tests of one planted fault may take without it; with it they may take ten times as long as that takes, and a minute")
	workers := flags.Int("workers", 2, "how many faults are planted and how many mutations run at a time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	p := plan{root: root, only: *only, shard: *shard, results: *results, workers: *workers, spare: time.Minute, limit: *limit, out: out}
	if *summary {
		return p.summarize(ctx, flags.Args())
	}
	var errs []error
	if *packages == "" {
		errs = append(errs, p.plantAll(ctx))
	}
	if *only == "" && *shard == "" {
		dirs := quickPackages
		if *packages != "" {
			dirs = strings.Split(*packages, ",")
		}
		known, err := readSurvivors(root)
		if err == nil {
			err = mutator{root: root, workers: *workers, spare: 10 * time.Second, out: out}.mutateAll(ctx, dirs, known)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
