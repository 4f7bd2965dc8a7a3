package telemetry

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// mostDenied bounds the pairs of pack and tool that the log remembers a warning of.
const mostDenied = 10_000

func newWarned() *cache.LRU[[2]string, struct{}] { return cache.New[[2]string, struct{}](mostDenied) }

// denied warns of a tool that the policy of tools refuses, once for each pack and tool: without the warning
// the model alone knows, and its run goes on without the tool. A warning for which the log has no room is
// made at the next refusal.
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
	if l.later(func(ctx context.Context) {
		l.log.WarnContext(ctx, "tool denied by policy, logged once for each pack", "pack", s.PackID, "tool", body.Tool,
			"code", body.Denial.Code, "message", body.Denial.Message, "remedy", remedy, runAttr, s.RunID)
	}) {
		l.warned.Put(pair, struct{}{}, 1)
	}
}

// remedyOf is what admits the tool; "": the policy of tools did not refuse it.
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
