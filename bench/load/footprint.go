package load

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/bench/load/host"
)

// idleSettle is how long an idle sidecar is left alone before its memory is
// read.
const idleSettle = time.Second

// idlePart starts a sidecar on an empty directory.
func (s *suite) idlePart(ctx context.Context) (Samples, error) {
	return interleave(s.sizes.IdleStarts, []arm{
		{"idle start", func(int) (map[string]float64, error) { return s.idleArm(ctx) }},
	}, s.logRound)
}

func (s *suite) idleArm(ctx context.Context) (map[string]float64, error) {
	dir, cleanup, err := tempDir(s.root, "idle")
	if err != nil {
		return nil, err
	}
	defer cleanup()
	up, err := s.timedStart(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer up.server.stop()
	pause(ctx, idleSettle, nil)
	rss, err := host.RSSMB(up.server.cmd.Process.Pid)
	return map[string]float64{"idle_ready_ms": up.readyMs, "idle_rss_mb": rss}, err
}

// started is a sidecar that serves.
type started struct {
	server  *child
	target  string
	readyMs float64
}

// timedStart measures from before the process exists to its ready line.
func (s *suite) timedStart(ctx context.Context, dir string, more ...string) (started, error) {
	return s.timed(ctx, s.serveArgs(dir, more...))
}

func (s *suite) timed(ctx context.Context, args []string) (started, error) {
	begin := time.Now()
	server, target, err := s.server(ctx, "serve", args...)
	return started{server: server, target: target, readyMs: millis(time.Since(begin))}, err
}

// binaryPart measures the size of the sidecar's binary.
func (s *suite) binaryPart(context.Context) (Samples, error) {
	size, err := host.StrippedMB(s.product)
	if err != nil {
		return nil, fmt.Errorf("the sidecar's binary: %w", err)
	}
	return Samples{"binary_mb": {size}}, nil
}
