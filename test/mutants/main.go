package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed survivors.txt
var survivors string

type options struct {
	sample int
	seed   uint64
	only   string
	limit  time.Duration
	procs  int
	list   bool
}

func main() {
	var o options
	flag.IntVar(&o.sample, "sample", 0, "how many guards are drawn; 0 = all")
	flag.Uint64Var(&o.seed, "seed", 1, "the seed of the draw")
	flag.StringVar(&o.only, "only", "", "only guards whose name contains this")
	flag.DurationVar(&o.limit, "limit", 4*time.Minute, "how long the tests of one package may take")
	flag.IntVar(&o.procs, "procs", 2, "mutants that are tried at once")
	flag.BoolVar(&o.list, "list", false, "print the names of the guards and try none")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	all, err := find(root)
	if err != nil {
		return err
	}
	reasons, err := parseReasons(survivors, all)
	if err != nil {
		return err
	}
	all = drawn(all, o)
	if o.list {
		for _, m := range all {
			fmt.Fprintln(out, m.name)
		}
		return nil
	}
	return tryAll(ctx, bench{root, o.limit}, all, reasons, o.procs, out)
}

// drawn are the guards that are tried, in an order that the seed decides.
func drawn(all []mutant, o options) []mutant {
	all = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.name, o.only) })
	if o.sample > 0 && o.sample < len(all) {
		dice := rand.New(rand.NewPCG(o.seed, 0))
		dice.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		all = all[:o.sample]
	}
	return all
}

// parseReasons reads survivors.txt; each line names a guard that there is.
func parseReasons(from string, all []mutant) (map[string]string, error) {
	reasons := map[string]string{}
	for line := range strings.Lines(from) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// The condition may contain " = " itself; the reason does not.
		at := strings.LastIndex(line, " = ")
		if at < 0 {
			return nil, fmt.Errorf("survivors.txt: %q has no reason: write the guard's name, \" = \", the reason", line)
		}
		name := line[:at]
		if !slices.ContainsFunc(all, func(m mutant) bool { return m.name == name }) {
			return nil, fmt.Errorf("survivors.txt: there is no guard %q any more: remove its line", name)
		}
		reasons[name] = line[at+len(" = "):]
	}
	return reasons, nil
}

// summary counts what became of the mutants.
type summary struct {
	mu      sync.Mutex
	out     io.Writer
	reasons map[string]string
	by      map[outcome]int
	excused int
	faults  []string
}

func (t *summary) add(m mutant, o outcome, said []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.by[o]++
	reason, excused := t.reasons[m.name]
	switch {
	case o == survived && excused:
		t.excused++
		fmt.Fprintf(t.out, "excused   %s (%s)\n", m.name, reason)
	case o == survived || o == unbuilt:
		t.faults = append(t.faults, fmt.Sprintf("%s %s", o, m.name))
		fmt.Fprintf(t.out, "%-9s %s\n", o, m.name)
		if o == unbuilt {
			fmt.Fprintf(t.out, "%s\n", said)
		}
	case excused:
		t.faults = append(t.faults, "the reason of "+m.name+" is out of date: "+firstFailure(said)+" notices it")
	default:
		fmt.Fprintf(t.out, "%-9s %s (%s)\n", o, m.name, firstFailure(said))
	}
}

func tryAll(ctx context.Context, b bench, all []mutant, reasons map[string]string, procs int, out io.Writer) error {
	t := &summary{out: out, reasons: reasons, by: map[outcome]int{}}
	began := time.Now()
	work := make(chan mutant)
	failed := make(chan error, procs)
	var at sync.WaitGroup
	for range procs {
		at.Go(func() {
			for m := range work {
				o, said, err := b.try(ctx, m)
				if err != nil {
					failed <- fmt.Errorf("%s: %w", m.name, err)
					return
				}
				t.add(m, o, said)
			}
		})
	}
	err := hand(work, all, failed)
	at.Wait()
	fmt.Fprintf(out, "%d guards taken out in %s: %d noticed, %d of them only by the time limit, %d survived, %d of them with a reason\n",
		len(all), time.Since(began).Round(time.Second), t.by[killed]+t.by[slow], t.by[slow], t.by[survived], t.excused)
	if err == nil && len(t.faults) > 0 {
		err = errors.New("each of these needs a test, or a line in test/mutants/survivors.txt:\n" + strings.Join(t.faults, "\n"))
	}
	return err
}

// hand sends the mutants to the goroutines that try them, until one of these fails.
func hand(work chan<- mutant, all []mutant, failed <-chan error) error {
	defer close(work)
	for _, m := range all {
		select {
		case work <- m:
		case err := <-failed:
			return err
		}
	}
	return nil
}
