// Command mutants checks that the tests detect faults. It plants each fault of faults.txt and runs
// the tests that the fault names: one of them must fail. It also mutates the operators in packages
// with quick tests, and runs the package's tests on each mutation: one must fail, unless
// survivors.txt says why none can. It does not change the tree.
//
// make mutants runs it. CI does not, because it takes an hour or more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"

	"sluice/internal/testenv"
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
	packages := flags.String("packages", "", "mutate these packages, folders separated by commas, and plant no faults")
	limit := flags.Duration("timeout", 5*time.Minute, "the time that the tests of one planted fault may take; a fault that makes them hang is detected")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	var errs []error
	if *packages == "" {
		errs = append(errs, plantAll(ctx, planter{root: root, limit: *limit, out: out}, *only))
	}
	if *only == "" {
		dirs := quickPackages
		if *packages != "" {
			dirs = strings.Split(*packages, ",")
		}
		known, err := readSurvivors(root)
		if err == nil {
			err = mutator{root: root, spare: 10 * time.Second, out: out}.mutateAll(ctx, dirs, known)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// plantAll plants the faults with names that match a regular expression. It returns an error if one
// is not detected and has no reason for it, or is detected although the list has a reason why no
// test can.
func plantAll(ctx context.Context, p planter, only string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	faults, err := readFaults(p.root)
	if err != nil {
		return err
	}
	var detected, excused int
	var errs []error
	for _, f := range faults {
		if !wanted.MatchString(f.name) {
			continue
		}
		found, err := p.plant(ctx, f)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", f.name, err)
		case found && f.survives == "":
			detected++
		case !found && f.survives != "":
			excused++
		case found:
			errs = append(errs, fmt.Errorf("%s is detected: remove the reason why it survives", f.name))
		default:
			errs = append(errs, fmt.Errorf("%s survives: no test of %s detects it", f.name, f.tests))
		}
	}
	_, err = fmt.Fprintf(p.out, "%d faults were detected, %d survive with a reason\n", detected, excused)
	return errors.Join(append(errs, err)...)
}
