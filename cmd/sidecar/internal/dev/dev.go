package dev

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/project"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/internal/ui"
)

// Options are the settings of a development session.
type Options struct {
	// Dir is the directory of the project. App runs in it.
	Dir string
	// Packs are the paths of pack files. The default is all *.pack.yaml, *.pack.yml and *.pack.json files of Dir, including files that are
	// added during the session. A directory without pack files needs an app: an adapter of a library makes the pack itself.
	Packs []string
	// App is the command that starts the app. The default is [AppCommand] of Dir. With NoApp no app is started.
	App   []string
	NoApp bool
	// Before the app that AppCommand found is started the first time, its missing packages are installed ([MissingEnvironment]). With
	// NoInstall they are not. Packages is a directory that `make dist` wrote: the client is installed from there. Default: from the index.
	NoInstall bool
	Packages  string
	// Open, if it is not nil, is called once with the address of the chat, or of the list of runs if the directory has no pack. It is not
	// called if no web page is served. It is called in a goroutine of its own. An error is printed and does not end Run.
	Open func(address string) error
	// Config is the configuration of the sidecar.
	Config config.Config
}

// session is the state of one `pawl dev`.
type session struct {
	o  Options
	p  *output.Printer
	mu sync.Mutex
	// packs contains the stamp (size and time) that each pack file had when it was read last.
	packs map[string]stamp
	// names maps a pack file to the id of the pack that was registered from it.
	names map[string]string
	conn  *grpc.ClientConn
	// chat is the address of the chat of the web page, or "" if no web page is served.
	chat string
}

// Run serves until ctx ends. Faults of packs and of the app are printed and do not end Run. Run returns an error if the arguments are
// wrong or the sidecar could not serve.
func Run(ctx context.Context, p *output.Printer, o Options) error {
	if files, err := o.files(); err != nil {
		return output.Usage(err)
	} else if len(files) == 0 && len(o.command()) == 0 {
		return output.Usage(errors.New("no *.pack.yaml, no *.pack.json and no app to start in this directory: `pawl init DIR` creates a project, or name a pack file; without --no-app, an app can bring its pack itself"))
	}
	s := &session{o: o, p: p, packs: map[string]stamp{}, names: map[string]string{}}
	if err := s.install(ctx); ctx.Err() != nil {
		return nil //nolint:nilerr // The developer ended the session.
	} else if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, announce := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		err := server.Serve(ctx, o.Config, announce, s.writer("sidecar"))
		_ = announce.CloseWithError(errors.Join(err, io.EOF))
		failed <- err
	}()
	line, err := bufio.NewReader(ready).ReadBytes('\n')
	if err != nil {
		return explain(<-failed, o.Config)
	}
	go func() { _, _ = io.Copy(io.Discard, ready) }()
	var at server.Ready
	if err := json.Unmarshal(line, &at); err != nil {
		return err
	}
	if s.conn, err = grpc.NewClient(at.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return err
	}
	defer s.conn.Close()
	if at.HTTP != "" {
		s.chat = "http://" + at.HTTP + ui.Path + "/chat"
	}
	s.registerChanged(ctx)
	page := s.printAddresses(at)
	if page != "" && o.Open != nil {
		go s.open(ctx, page)
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { every(ctx, func() { s.registerChanged(ctx) }) })
	if command := s.o.command(); len(command) > 0 {
		a := &app{dir: o.Dir, command: command, env: []string{"PAWL_ADDR=" + at.GRPC}, out: s.writer("app")}
		tasks.Go(func() { a.run(ctx, s.printf) })
	}
	err = <-failed
	cancel()
	tasks.Wait()
	return err
}

// install installs the missing packages of the app. An app that the developer named has an environment of the developer.
func (s *session) install(ctx context.Context) error {
	language := ""
	if !s.o.NoApp && !s.o.NoInstall && len(s.o.App) == 0 {
		language = MissingEnvironment(s.o.Dir, os.Getenv)
	}
	if language == "" {
		if s.o.Packages != "" {
			s.printf("no packages of the app are missing, so nothing is installed from %s", s.o.Packages)
		}
		return nil
	}
	s.printf("the packages of the app are missing and are installed; --no-install leaves that to you")
	err := project.Install(ctx, s.o.Dir, language, s.o.Packages, func(command string) { s.printf("%s", command) })
	_, failed := errors.AsType[*project.InstallError](err)
	switch {
	case err == nil:
		return nil
	case failed:
		return fmt.Errorf("the packages of the app are not installed: %w", err)
	}
	return output.Usage(err)
}

// open shows a page in the browser. If this fails, it only prints the error.
func (s *session) open(ctx context.Context, page string) {
	if err := s.o.Open(page); err != nil && ctx.Err() == nil {
		s.printf("no browser was opened (%v): open %s yourself", err, page)
	}
}

// files returns the paths of the pack files: Packs in their order, or those of Dir, sorted. If one of Packs is missing,
// it returns an error.
func (o Options) files() ([]string, error) {
	if len(o.Packs) > 0 {
		for _, file := range o.Packs {
			if _, err := os.Stat(file); err != nil {
				return nil, err
			}
		}
		return o.Packs, nil
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && isPack(entry.Name()) {
			files = append(files, filepath.Join(o.Dir, entry.Name()))
		}
	}
	return files, nil
}

func (o Options) command() []string {
	switch {
	case o.NoApp:
		return nil
	case len(o.App) > 0:
		return o.App
	}
	return AppCommand(o.Dir)
}

// explain adds to an error of the sidecar what the developer can do about it.
func explain(err error, c config.Config) error {
	if err != nil && strings.Contains(err.Error(), "address already in use") {
		return fmt.Errorf("%w: another sidecar may run; end it, or choose other ports with --listen and --http (now %s and %s)", err, c.Listen, c.HTTP)
	}
	return err
}

// writer returns a writer for the output of one process. The lines get the name as a prefix.
func (s *session) writer(name string) io.Writer {
	return &lines{mu: &s.mu, out: s.p.Out, prefix: s.p.Dim(fmt.Sprintf("%-7s |", name)) + " "}
}

// printf prints a line of `pawl dev` itself.
func (s *session) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.p.Printf("%s %s\n", s.p.Good("dev     |"), fmt.Sprintf(format, args...))
}

// printAddresses prints the addresses, and what the developer can try next. It returns the address of the page that the developer needs first, or
// "" if no web page is served.
func (s *session) printAddresses(at server.Ready) (page string) {
	s.printf("the sidecar serves gRPC at %s; runs are kept in %s", at.GRPC, s.o.Config.Data)
	switch {
	case at.HTTP == "":
	case len(s.packs) == 0:
		page = "http://" + at.HTTP + ui.Path + "/"
		s.printf("the app makes its pack itself; see its runs at %s", page)
	default:
		page = s.chat
		s.printf("chat with your agent at %s", page)
	}
	s.printf("all tools are allowed here; in production name them with --allow-tool")
	names := make([]string, 0, len(s.names))
	for _, name := range s.names {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > 0 {
		addr := ""
		if at.GRPC != cmp.Or(os.Getenv("PAWL_ADDR"), config.Default().Listen) {
			addr = "--addr " + at.GRPC + " "
		}
		s.printf("try: %s runs start %s %s--input \"Hello\"", s.o.self(), names[0], addr)
	}
	switch command := s.o.command(); {
	case len(command) > 0:
		s.printf("app: %s; it is started again when a file changes", strings.Join(command, " "))
	case !s.o.NoApp:
		s.printf("no app.py and no script \"app\" in package.json: start a worker yourself, or give its command with --app")
	}
	return page
}

// self returns the command with which the developer can call pawl in the directory of the project.
func (o Options) self() string {
	if hasFile(o.Dir, "node_modules/.bin/pawl") {
		return "npx pawl"
	}
	if _, err := exec.LookPath("pawl"); err != nil && hasFile(o.Dir, ".venv/bin/pawl") {
		return ".venv/bin/pawl"
	}
	return "pawl"
}

// registerChanged registers each pack file that has changed since the last call.
func (s *session) registerChanged(ctx context.Context) {
	files, err := s.o.files()
	if err != nil {
		return // a named file or the directory is missing now; the next call looks again
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue // an editor may be replacing the file; the next call finds it
		}
		now := stamp{info.Size(), info.ModTime()}
		if now == s.packs[file] {
			continue
		}
		s.packs[file] = now
		s.register(ctx, file)
	}
}

// register registers a pack file. If its version is already registered with other content, the version then refers to the new content.
// Runs that have started keep the content that they started with.
func (s *session) register(ctx context.Context, file string) {
	content, err := os.ReadFile(file)
	if err != nil {
		s.printf("%v", err)
		return
	}
	loaded, found, err := pack.Load(content, pack.Options{Providers: slices.Sorted(maps.Keys(s.o.Config.Bindings()))})
	faults := 0
	for _, d := range found {
		if d.Severity == pack.SeverityError {
			faults++
		}
		s.printf("%s:%s", file, d)
	}
	if err != nil || loaded == nil || faults > 0 {
		if err != nil {
			s.printf("%s: %v", file, err)
		}
		s.printf("%s is not registered; it is read again when you save it", file)
		return
	}
	got, err := pawlv1.NewPackServiceClient(s.conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: content, Filename: filepath.Base(file), MoveVersion: true})
	if err != nil {
		if ctx.Err() == nil {
			s.printf("%s is not registered: %s", file, output.ProblemOf(err))
		}
		return
	}
	name := got.GetPack().GetId() + "@" + got.GetPack().GetVersion()
	if _, again := s.names[file]; again {
		s.printf("%s registered again; new runs use it, and runs that wait keep their own", name)
		s.older(ctx, got.GetPack())
	} else {
		s.printf("%s registered", name)
	}
	s.names[file] = got.GetPack().GetId()
}

// namedRuns is the number of runs that one line names.
const namedRuns = 3

// older prints the runs that have not ended and use older content of a pack than the newest. The developer can fork
// them on the web page. Without a web page it prints nothing. It reads at most 100 runs of the pack.
func (s *session) older(ctx context.Context, newest *pawlv1.Pack) {
	got, err := pawlv1.NewRunServiceClient(s.conn).ListRuns(ctx, &pawlv1.ListRunsRequest{
		Filter: &pawlv1.RunFilter{
			Pack:     newest.GetId(),
			Statuses: []pawlv1.RunStatus{pawlv1.RunStatus_RUN_STATUS_RUNNING, pawlv1.RunStatus_RUN_STATUS_WAITING},
		},
		PageSize: 100,
	})
	if err != nil || s.chat == "" {
		return // the runs go on in any case
	}
	var runs []string
	for _, run := range got.GetRuns() {
		if run.GetPack().GetDigest() != newest.GetDigest() {
			runs = append(runs, run.GetRunId())
		}
	}
	switch shown := runs[:min(len(runs), namedRuns)]; {
	case len(runs) == 0:
	case len(runs) == 1:
		s.printf("a run uses an older version of %s; fork it onto the newest one at %s/%s", newest.GetId(), s.chat, runs[0])
	default:
		s.printf("%d runs use an older version of %s; fork them onto the newest one at %s/RUN: %s%s",
			len(runs), newest.GetId(), s.chat, strings.Join(shown, ", "), more(len(runs)-len(shown)))
	}
}

// more returns a text with the number of runs that a line does not name.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
