package telemetry

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// mostDenied bounds the pairs of pack and tool for which a warning is remembered.
const mostDenied = 10_000

func newWarned() *cache.LRU[[2]string, struct{}] { return cache.New[[2]string, struct{}](mostDenied) }

// denied logs a warning about a tool that the tool policy denies, once for each pack and tool. Without the
// warning only the model would learn of the denial, and the run would continue without the tool. If the queue of the
// log is full, the warning is logged at the next denial.
func (l *RunLog) denied(s *machine.State, body *machine.StepRejected) {
	remedy := remedyOf(body.Denial)
	if remedy == "" {
		return
	}
	pair := [2]string{s.PackID, body.Tool}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.warned.Get(pair); known {
		return
	}
	if l.enqueue(func(ctx context.Context) {
		l.log.WarnContext(ctx, "tool denied by policy, logged once for each pack", "pack", s.PackID, "tool", body.Tool,
			"code", body.Denial.Code, "message", body.Denial.Message, "remedy", remedy, runAttr, s.RunID)
	}) {
		l.warned.Put(pair, struct{}{}, 1)
	}
}

// remedyOf returns the setting that would allow the tool. It returns "" if the tool policy did not deny the tool.
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
