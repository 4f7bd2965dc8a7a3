package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/bench/load/host"
	"github.com/pawl-dev/pawl/bench/load/many"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Options of one bench.
type Options struct {
	// Sizes default to [FullSizes].
	Sizes Sizes
	// Quick is only written to the report. [QuickSizes] make a benchmark quick.
	Quick bool
	// Dir holds the data; the bench makes a directory in it and removes that.
	// Default the system's temporary directory. Figures mean something on a disk
	// only, not on tmpfs.
	Dir string
	// Self is the command that runs [Child] with a role, flags and arguments
	// appended. Required.
	Self []string
	// Product is the sidecar's binary, whose size is measured. Required for that part.
	Product string
	// Profiles is a directory for the children's CPU profiles; "" = none.
	Profiles string
	// Parts to measure, of [PartNames]; none = all.
	Parts []string
	// Python is an interpreter that has the client, Node the one of TypeScript; ""
	// looks for them in the source tree that the bench is run in.
	Python, Node string
	// Store is a database whose store is measured beside the embedded one; zero = none.
	Store dsn.URL
	// Wait is how long to wait for a quiet machine at most; 0 = do not wait.
	Wait time.Duration
	// Progress gets one line per step; nil = none.
	Progress io.Writer
}

// QuietWait is how long a bench that is not quick waits for a quiet machine.
const QuietWait = 2 * time.Minute

// partTimeout bounds each part of the suite, so that a server that hangs fails
// its own part only.
const partTimeout = 10 * time.Minute

// manyTimeout is that of parts over very many runs, which are stored first.
const manyTimeout = time.Hour

// suite is one bench under way.
type suite struct {
	launcher
	product string
	sizes   Sizes
	root    string
	packs   []string
	// foreign are the languages whose workers, and drivers, are measured besides Go's.
	foreign   []language
	progress  io.Writer
	startedAt time.Time
	// database is measured beside the embedded store; nil = none.
	database *many.Database
}

// Run measures everything. A part that fails is named in the report's faults
// and the others go on; the error is for what makes any measurement impossible,
// and for a ctx that ended.
func Run(ctx context.Context, opts Options) (*Report, error) {
	s, cleanup, err := newSuite(opts)
	if err != nil {
		return nil, err
	}
	defer cleanup()
	if !opts.Store.IsZero() {
		if s.database, err = many.Inspect(ctx, opts.Store); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	load := host.AwaitQuiet(ctx, opts.Wait, s.logf)
	samples := Samples{}
	var faults, missing []string
	if isSelected(opts.Parts, "workers") || isSelected(opts.Parts, "drivers") {
		s.foreign, missing = installed(ctx, opts.Python, opts.Node)
	}
	for _, p := range s.parts() {
		if !isSelected(opts.Parts, p.name) || s.database == nil && ofDatabases(p.name) {
			continue
		}
		got, err := s.part(ctx, p)
		samples.merge(got)
		if err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", p.name, err))
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	report := newReport(samples, s.figures()...)
	report.Quick, report.Sizes, report.Faults, report.Missing = opts.Quick, s.sizes, faults, missing
	report.Machine, report.Sync = host.Describe(s.root), s.sync()
	report.Machine.Load = load
	report.Elapsed = time.Since(s.startedAt)
	return report, nil
}

// syncMode is how everything that is measured makes its writes durable.
const syncMode = "every commit synced before it is answered (Badger SyncWrites, msync of the log)"

// sync says it of the database, too.
func (s *suite) sync() string {
	if s.database == nil {
		return syncMode
	}
	return syncMode + "; " + s.database.Sync()
}

// ofDatabases: a part of that name needs one.
func ofDatabases(name string) bool {
	return strings.HasPrefix(name, "store") || strings.HasPrefix(name, "cluster")
}

// part measures some figures that nothing else needs.
type part struct {
	name string
	run  func(context.Context) (Samples, error)
}

func (s *suite) parts() []part {
	return []part{
		{"inprocess", s.inProcessPart},
		{"wire", s.wirePart},
		{"overload", s.overloadPart},
		{"watchers", s.watchersPart},
		{"telemetry", s.telemetryPart},
		{"workers", s.workersPart},
		{"drivers", s.driversPart},
		{"agents", s.agentsPart},
		{"delegate", s.delegatePart},
		{"mcp", s.mcpPart},
		{"flat", s.flatPart},
		{"models", s.modelsPart},
		{"snapshot", s.snapshotPart},
		{"restart", s.restartPart},
		{"overdue", s.overduePart},
		{"million", s.millionPart},
		{"lists", s.listsPart},
		{"storage", s.storagePart},
		{"idle", s.idlePart},
		{"binary", s.binaryPart},
		{"store", s.storePart},
		{"cluster", s.clusterPart},
		{"store-million", s.storeMillionPart},
	}
}

// PartNames lists the parts of a bench in their order.
func PartNames() []string {
	var names []string
	for _, p := range (&suite{}).parts() {
		names = append(names, p.name)
	}
	return names
}

func isSelected(parts []string, name string) bool {
	return len(parts) == 0 || slices.Contains(parts, name)
}

// checkParts refuses a name that is none.
func checkParts(parts []string, kept dsn.URL) error {
	for _, name := range parts {
		if ofDatabases(name) && kept.IsZero() && slices.Contains(PartNames(), name) {
			return fmt.Errorf("bench: part %q needs a database: --store", name)
		}
		if !slices.Contains(PartNames(), name) {
			return fmt.Errorf("bench: part %q; want some of %s", name, strings.Join(PartNames(), ", "))
		}
	}
	return nil
}

func (s *suite) part(ctx context.Context, p part) (Samples, error) {
	timeout := partTimeout
	if strings.HasSuffix(p.name, "million") {
		timeout = manyTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.run(ctx)
}

func newSuite(opts Options) (*suite, func(), error) {
	if len(opts.Self) == 0 {
		return nil, nil, errors.New("bench: Options.Self is required")
	}
	if err := checkParts(opts.Parts, opts.Store); err != nil {
		return nil, nil, err
	}
	if opts.Sizes == (Sizes{}) {
		opts.Sizes = FullSizes()
	}
	root, cleanup, err := tempDir(opts.Dir, "pawl-bench")
	if err != nil {
		return nil, nil, fmt.Errorf("bench: %w", err)
	}
	packs, err := writePacks(root)
	if err == nil && opts.Profiles != "" {
		err = os.MkdirAll(opts.Profiles, 0o750)
	}
	if err != nil {
		cleanup()
		return nil, nil, fmt.Errorf("bench: %w", err)
	}
	return &suite{
		launcher: launcher{self: opts.Self, profiles: opts.Profiles},
		product:  opts.Product,
		sizes:    opts.Sizes, root: root, packs: packs,
		progress: opts.Progress, startedAt: time.Now(),
	}, cleanup, nil
}

// logf says how far the bench is.
func (s *suite) logf(format string, args ...any) {
	if s.progress != nil {
		fmt.Fprintf(s.progress, "%6.1fs  %s\n", time.Since(s.startedAt).Seconds(), fmt.Sprintf(format, args...))
	}
}

func (s *suite) logRound(text string) { s.logf("%s", text) }

// server starts a role that says ready, and tells where it serves.
func (s *suite) server(ctx context.Context, role string, args ...string) (*child, string, error) {
	c, err := s.start(ctx, role, args...)
	if err != nil {
		return nil, "", err
	}
	var up ready
	if err := c.next(ctx, &up); err != nil {
		c.stop()
		return nil, "", err
	}
	if !up.Ready || up.GRPC == "" {
		c.stop()
		return nil, "", fmt.Errorf("child %s is not ready", role)
	}
	return c, up.GRPC, nil
}

// serveArgs are the flags of a sidecar on dir with the bench's packs.
func (s *suite) serveArgs(dir string, more ...string) []string {
	return s.serveFrom([]string{"--data", filepath.Join(dir, "data")}, more...)
}

// serveFrom are the same for a store elsewhere, which kept names.
func (s *suite) serveFrom(kept []string, more ...string) []string {
	args := slices.Concat(kept, []string{"--listen", "127.0.0.1:0"})
	for _, path := range s.packs {
		args = append(args, "--pack", path)
	}
	return append(args, more...)
}

// onServer runs use against a fresh server of a role, on a fresh directory; more are flags of a sidecar.
func (s *suite) onServer(ctx context.Context, role string, use func(target string) error, more ...string) error {
	dir, cleanup, err := tempDir(s.root, role)
	if err != nil {
		return err
	}
	defer cleanup()
	args := []string{dir}
	if role == "serve" {
		args = s.serveArgs(dir, more...)
	}
	server, target, err := s.server(ctx, role, args...)
	if err != nil {
		return err
	}
	defer server.stop()
	return use(target)
}

// inDirectory runs use with a child of a role and a directory of its own.
func (s *suite) inDirectory(ctx context.Context, role string, use func(c *child, dir string) error) error {
	dir, cleanup, err := tempDir(s.root, role)
	if err != nil {
		return err
	}
	defer cleanup()
	c, err := s.start(ctx, role)
	if err != nil {
		return err
	}
	defer c.stop()
	return use(c, dir)
}

// load does one job in a process of its own.
func (s *suite) load(ctx context.Context, job loadJob) (loadResult, error) {
	c, err := s.start(ctx, "load")
	if err != nil {
		return loadResult{}, err
	}
	defer c.stop()
	var result loadResult
	err = c.call(ctx, job, &result)
	return result, err
}

// measureLoad is what a fresh sidecar with more flags makes of one load.
func (s *suite) measureLoad(ctx context.Context, kind string, clients int, more ...string) (got loadResult, err error) {
	err = s.onServer(ctx, "serve", func(target string) error {
		got, err = s.load(ctx, s.job(kind, target, clients))
		return err
	}, more...)
	return got, err
}

// job is a load of the suite's sizes.
func (s *suite) job(kind, target string, clients int) loadJob {
	return loadJob{
		Kind: kind, Target: target, Clients: clients, Connections: min(s.sizes.Connections, clients),
		Warm: s.sizes.warm(), Window: s.sizes.window(), Pack: packLoop, Bytes: s.sizes.ArtifactBytes,
	}
}
