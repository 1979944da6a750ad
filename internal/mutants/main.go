// Command mutants checks that the tests notice faults. It plants each fault of
// faults.txt in turn, without touching the tree, and runs the tests that the
// fault names: they must fail. With -gremlins it also judges the report of
// go-gremlins, whose survivors must be listed in survivors.txt.
//
// It is run by make mutants, not in CI: it takes an hour.
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
	only := flags.String("run", "", "plant only the faults whose name matches this regular expression")
	report := flags.String("gremlins", "", "judge this report of go-gremlins in JSON, and plant no faults")
	dir := flags.String("package", ".", "the folder of the package that the report is about")
	limit := flags.Duration("timeout", 5*time.Minute, "the time that the tests of one fault may take; a test that hangs has noticed it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := testenv.Root()
	if err != nil {
		return err
	}
	if *report != "" {
		return judge(root, *dir, *report, out)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	faults, err := readFaults(root)
	if err != nil {
		return err
	}
	return plantAll(ctx, planter{root: root, limit: *limit, out: out}, faults, wanted)
}

// plantAll plants the faults whose names match. It is an error when one of them
// goes unnoticed that is not known to, or is noticed although the list says that
// no test can.
func plantAll(ctx context.Context, p planter, faults []fault, wanted *regexp.Regexp) error {
	var noticed, excused int
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
			noticed++
		case !found && f.survives != "":
			excused++
		case found:
			errs = append(errs, fmt.Errorf("%s is noticed: remove the reason why it survives", f.name))
		default:
			errs = append(errs, fmt.Errorf("%s survives: no test of %s notices it", f.name, f.tests))
		}
	}
	_, err := fmt.Fprintf(p.out, "%d faults were noticed, %d survive with a reason\n", noticed, excused)
	return errors.Join(append(errs, err)...)
}
