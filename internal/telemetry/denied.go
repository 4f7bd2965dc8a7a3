package telemetry

import (
	"context"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// mostDenied bounds the pairs of pack and tool that are remembered as warned of.
const mostDenied = 10_000

// denials are the pairs of pack and tool that the log has a warning of: that the policy of
// tools refuses one is told to the model alone otherwise, and its run goes on without it.
type denials struct {
	mu     sync.Mutex
	warned *cache.LRU[[2]string, struct{}]
}

func newDenials() *denials {
	return &denials{warned: cache.New[[2]string, struct{}](mostDenied)}
}

// each calls say for the refusals of a commit that were not said before; those of which it
// reports that they were not, are found again.
func (d *denials) each(b *machine.Batch, say func(body *machine.StepRejected, remedy string) bool) {
	for _, record := range b.Records {
		body, ok := record.Body.(*machine.StepRejected)
		if !ok {
			continue
		}
		if remedy := remedyOf(body.Denial); remedy != "" {
			d.once([2]string{b.State.PackID, body.Tool}, func() bool { return say(body, remedy) })
		}
	}
}

func (d *denials) once(pair [2]string, say func() bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.warned.Get(pair); !known && say() {
		d.warned.Put(pair, struct{}{}, 1)
	}
}

// remedyOf is what admits the tool; "": the refusal is none of the policy of tools.
func remedyOf(denial machine.Denial) string {
	switch denial.Code {
	case machine.ToolNotAllowed:
		if strings.HasPrefix(denial.Message, "the operator's") {
			return "serve with --allow-tool, for the tools that answer for it too (reconcile, compensate)"
		}
		return "serve the sidecar of the run that delegated with --allow-tool"
	case machine.ToolBlocked:
		return "take the tool out of the blocklist of the prompt (tool_policy.blocklist), or of that of the run that delegated"
	}
	return ""
}

// denied says that a tool is denied, later; false: too many lines wait for the log.
func (l *RunLog) denied(s *machine.State) func(*machine.StepRejected, string) bool {
	return func(body *machine.StepRejected, remedy string) bool {
		return l.later(func(ctx context.Context) {
			l.log.WarnContext(ctx, "a tool is denied to the runs of a pack; only the first call is logged", "pack", s.PackID, "tool", body.Tool,
				"code", body.Denial.Code, "why", body.Denial.Message, "remedy", remedy, runAttr, s.RunID)
		})
	}
}
