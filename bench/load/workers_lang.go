package load

import (
	"context"
	"os/exec"

	"github.com/pawl-dev/pawl/bench/load/lang"
)

// language is one whose worker, and perhaps whose driver, can be measured.
type language = lang.Language

var goWorker = language{Name: "go"}

// startWorker runs a language's worker program.
func (s *suite) startWorker(ctx context.Context, l language) (*child, error) {
	if l.Command == nil {
		return s.start(ctx, "worker")
	}
	return s.spawn(l.Name+" worker", commandOf(ctx, l.Command))
}

func commandOf(ctx context.Context, argv []string) *exec.Cmd {
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}
