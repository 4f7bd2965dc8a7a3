package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/test/conformance/endpoint"
	"github.com/pawl-dev/pawl/test/conformance/godriver"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "driver" {
		godriver.Serve(os.Stdin, os.Stdout)
		return
	}
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	set, err := parse(args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, set.limit)
	defer cancel()
	defer context.AfterFunc(ctx, set.processes.kill)()
	began := time.Now()
	columns := runColumns(ctx, set)
	if len(set.cases) > 0 {
		runAnswers(ctx, set, columns)
	}
	if set.killCount > 0 {
		runKills(ctx, set, columns)
	}
	if printTable(os.Stdout, set, columns, time.Since(began)) > 0 {
		return 1
	}
	return 0
}

// settings are what the command line asks for.
type settings struct {
	// root is the directory of the module.
	root string
	// binary is the sidecar under test.
	binary    string
	languages []language
	scenarios []*scenario
	// cases are of the scripted endpoint.
	cases     []*endpoint.Case
	processes *processes
	// killCount is how many programs are killed.
	killCount int
	// limit bounds the whole.
	limit time.Duration
	// parallel is how many scenarios of a language run at once.
	parallel int
	// times adds seconds to each cell.
	times bool
}

func parse(args []string) (*settings, error) {
	set := &settings{processes: newProcesses()}
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.StringVar(&set.root, "root", ".", "directory of the module")
	flags.StringVar(&set.binary, "sidecar", os.Getenv("PAWL_SIDECAR"), "the program under test (default ROOT/bin/pawl)")
	flags.DurationVar(&set.limit, "limit", 20*time.Minute, "longest time of the whole")
	flags.IntVar(&set.parallel, "lanes", 2, "scenarios of a language that run at once")
	flags.BoolVar(&set.times, "times", false, "show how many seconds each scenario took")
	only := flags.String("only", "", "regular expression of the scenarios, and of the rows "+answersRow+"CASE, to run (default: all)")
	parts := flags.String("parts", scenariosPart+","+answersPart+","+killsPart, "what to run: the scenarios, the answers of the scripted endpoint to every executor, and kills of programs and sidecars")
	kills := flags.Int("kills", 200, "programs to kill, in all columns together")
	names := flags.String("languages", "", "columns to run with the drivers of this repository (default go,python,typescript, or none with -driver)")
	var drivers []string
	flags.Func("driver", "another driver: NAME=COMMAND, NAME=tcp:HOST:PORT or NAME=unix:PATH (repeatable)", func(text string) error {
		drivers = append(drivers, text)
		return nil
	})
	word := flags.String("level", coreLevel.String(), "what the drivers of -driver play: "+strings.Join(levels, ", ")+", each with those before it")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if set.parallel < 1 {
		return nil, fmt.Errorf("lanes: at least 1, not %d", set.parallel)
	}
	most, err := levelOf(*word)
	if err != nil {
		return nil, err
	}
	if *names == "" && len(drivers) == 0 {
		*names = strings.Join(builtIn, ",")
	}
	if *names != "" {
		if set.languages, err = languagesOf(set.root, *names); err != nil {
			return nil, err
		}
	}
	for _, text := range drivers {
		lang, err := driverOf(text, most)
		if err != nil {
			return nil, err
		}
		set.languages = append(set.languages, lang)
	}
	if len(drivers) > 0 && *names == "" {
		// The scripted endpoint and the kills are for the executors of this repository.
		*parts = scenariosPart
	}
	if set.binary, err = binaryOf(set.root, set.binary); err != nil {
		return nil, err
	}
	return set, set.load(*parts, *only, *kills)
}

// Parts of the whole, for the flag.
const (
	scenariosPart = "scenarios"
	answersPart   = "answers"
	killsPart     = "kills"
)

// load reads what is to be run, of each part what matches.
func (s *settings) load(parts, only string, kills int) (err error) {
	for part := range strings.SplitSeq(parts, ",") {
		switch part {
		case scenariosPart:
			s.scenarios, err = loadScenarios(s.root, only)
		case answersPart:
			s.cases, err = loadCases(only)
		case killsPart:
			if only == "" || strings.HasPrefix(only, killsRow) {
				s.killCount = kills
			}
		default:
			err = fmt.Errorf("parts: %s, %s and %s, not %q", scenariosPart, answersPart, killsPart, part)
		}
		if err != nil {
			return err
		}
	}
	if len(s.scenarios)+len(s.cases)+s.killCount == 0 {
		return fmt.Errorf("nothing matches %q", only)
	}
	return nil
}

// loadCases are the cases of the scripted endpoint whose rows match.
func loadCases(only string) ([]*endpoint.Case, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	all, err := endpoint.Cases()
	return slices.DeleteFunc(all, func(c *endpoint.Case) bool { return !pattern.MatchString(answersRow + c.Name) }), err
}
