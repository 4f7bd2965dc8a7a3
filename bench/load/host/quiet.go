package host

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// quietLoad is the load average of a minute under which a machine is quiet.
	quietLoad = 0.5
	// quietLook is how often it is looked at; the system counts every 5 s.
	quietLook = 5 * time.Second
)

// Load is what the machine had to do before the bench began.
type Load struct {
	// Average of the last minute when the bench began; nil where the system does not
	// tell.
	Average *float64 `json:"load_1m"`
	// Waited are the seconds that it was waited for.
	Waited float64 `json:"waited_s"`
	// Quiet: the average was under 0.5.
	Quiet bool `json:"quiet"`
}

// String is one line for people.
func (l Load) String() string {
	if l.Average == nil {
		return "the system does not tell its load"
	}
	said := "not quiet: figures of time are worth less"
	if l.Quiet {
		said = "quiet"
	}
	return fmt.Sprintf("%.2f over the last minute after waiting %.0f s, %s", *l.Average, l.Waited, said)
}

// AwaitQuiet waits until the machine's load is low, at most for wait, and says what it
// saw; tell gets a line when it has to wait.
func AwaitQuiet(ctx context.Context, wait time.Duration, tell func(format string, args ...any)) Load {
	return quiet{wait: wait, readLoad: loadAverage, logf: tell, pause: pause}.await(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// quiet is what the waiting needs.
type quiet struct {
	wait     time.Duration
	readLoad func() (float64, bool)
	// pause waits for a while; it returns early when ctx ends.
	pause func(ctx context.Context, d time.Duration)
	logf  func(format string, args ...any)
}

func (q quiet) await(ctx context.Context) Load {
	var waited time.Duration
	for {
		load, ok := q.readLoad()
		if !ok {
			return Load{}
		}
		if load < quietLoad || waited >= q.wait || ctx.Err() != nil {
			return Load{Average: &load, Waited: waited.Seconds(), Quiet: load < quietLoad}
		}
		if waited == 0 {
			q.logf("load %.2f: waiting up to %v until it is under %.1f", load, q.wait, quietLoad)
		}
		step := min(quietLook, q.wait-waited)
		q.pause(ctx, step)
		waited += step
	}
}

// loadAverage is that of the last minute; false where the system does not tell.
func loadAverage() (float64, bool) {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(raw), " ")
	load, err := strconv.ParseFloat(first, 64)
	return load, err == nil
}
