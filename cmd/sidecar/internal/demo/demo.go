package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/script"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Options are the settings of each demo.
type Options struct {
	// Binary is the path of the sidecar's executable. Required.
	Binary string
	// Dir is the directory for the files of the demo. If it is "", the demo uses a temporary directory and deletes it at the end, except
	// with Keep.
	Dir  string
	Keep bool
	// Printer receives the output of the demo.
	Printer *output.Printer
}

// CodegenOptions are the settings of the codegen demo.
type CodegenOptions struct {
	Options
	// Store is the database that contains the store. If it is zero, the store is in Dir.
	Store dsn.URL
}

// timeout bounds the duration of a demo.
const timeout = 3 * time.Minute

// inDir calls do with a context that ends after the timeout. If Dir is empty, it sets Dir to a temporary directory and deletes the
// directory afterwards, except with Keep.
func (o *Options) inDir(ctx context.Context, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "pawl-demo-"); err != nil {
			return err
		}
		if !o.Keep {
			defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
		}
	}
	return do(ctx)
}

// printLine prints one line of the output, with a label. With JSON output it prints nothing.
func (o *Options) printLine(label, format string, args ...any) {
	if !o.Printer.JSON {
		o.Printer.Printf("%s %s\n", o.Printer.Bold(fmt.Sprintf("%-14s", label)), fmt.Sprintf(format, args...))
	}
}

// RunCodegen runs the codegen demo. It returns an error if the run differs in any way from the expected run.
func RunCodegen(ctx context.Context, o CodegenOptions) error {
	if _, err := exec.LookPath("go"); err != nil {
		return output.Usage(fmt.Errorf("the demo runs go test: %w", err))
	}
	return o.inDir(ctx, func(ctx context.Context) error {
		d, err := prepare(o)
		if err != nil {
			return err
		}
		return errors.Join(d.runDemo(ctx), d.close())
	})
}

// demo is a demo in progress.
type demo struct {
	CodegenOptions
	pack string
	// schema is the schema of the database that the demo uses.
	schema  string
	model   *model
	tools   *tools
	process *process
	runID   string
	crash   crash
	// restored counts the steps that were not executed again after the crash, because their answers were in the
	// journal.
	restored int
}

func prepare(o CodegenOptions) (*demo, error) {
	d := &demo{CodegenOptions: o, pack: filepath.Join(o.Dir, "codegen-agent.yaml"), schema: fmt.Sprintf("pawl_demo_%d", time.Now().UnixNano())}
	content, err := assets.ReadFile("assets/codegen-agent.yaml")
	if err != nil {
		return nil, err
	}
	if d.model, err = loadModel(); err != nil {
		return nil, err
	}
	dir := filepath.Join(o.Dir, "workspace")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(d.pack, content, 0o644)); err != nil {
		return nil, err
	}
	workspace, err := NewWorkspace(dir)
	if err != nil {
		return nil, err
	}
	d.tools = &tools{workspace: workspace}
	return d, nil
}

// close closes the workspace, and kills the sidecar if it still runs.
func (d *demo) close() error {
	errs := []error{d.tools.workspace.Close()}
	if d.process != nil {
		errs = append(errs, d.process.kill())
	}
	return errors.Join(errs...)
}

// runDemo runs the demo from start to end.
func (d *demo) runDemo(ctx context.Context) error {
	d.printIntroduction()
	if err := d.start(); err != nil {
		return err
	}
	if err := d.startRun(ctx); err != nil {
		return err
	}
	e := d.executor()
	e.answered = func(turn *pawlv1.GetTurnResponse) error {
		if ref := turn.GetTurn(); ref.GetState() == "implement" && ref.GetVisit() == 2 {
			return errPowerCut
		}
		return nil
	}
	if err := e.run(ctx, d.runID); !errors.Is(err, errPowerCut) {
		return fmt.Errorf("the run did not come to the second visit of implement: %w", err)
	}
	if err := d.crashAndRestart(ctx); err != nil {
		return err
	}
	e = d.executor()
	if err := e.run(ctx, d.runID); err != nil {
		return err
	}
	d.restored = e.replayed
	return d.finish(ctx)
}

func (d *demo) executor() *executor {
	return &executor{runs: d.runs(), model: d.model, tools: d.tools, printLine: d.printLine}
}

func (d *demo) runs() pawlv1.RunServiceClient { return pawlv1.NewRunServiceClient(d.process.conn) }

// place returns the flags that select the store.
func (d *demo) place() []string {
	if d.Store.IsZero() {
		return []string{"--data", filepath.Join(d.Dir, "data")}
	}
	return []string{"--store", d.Store.Secret(), "--store-schema", d.schema}
}

// serveFlags returns the flags with which `pawl serve` serves the store.
func (d *demo) serveFlags() []string {
	if d.Store.IsZero() {
		return d.place()
	}
	return append(d.place(), "--accept-loss-on-failover")
}

// start starts the sidecar on the demo's data.
func (d *demo) start() (err error) {
	if d.process, err = startProcess(d.Binary, d.Dir, append([]string{"--listen", "127.0.0.1:0", "--pack", d.pack,
		"--allow-tool", "write_file", "--allow-tool", "read_file", "--allow-tool", "run_tests"}, d.serveFlags()...)); err != nil {
		return err
	}
	d.printLine("sidecar", "process %d serves %s, ready after %d ms", d.process.cmd.Process.Pid, d.process.addr, d.process.ready.Milliseconds())
	return nil
}

func (d *demo) startRun(ctx context.Context) error {
	req, err := new(script.Driver).Start("codegen-agent", d.model.file)
	if err != nil {
		return err
	}
	req.RequestId = "demo"
	got, err := d.runs().StartRun(ctx, req)
	if err != nil {
		return fmt.Errorf("start run: %w", err)
	}
	d.runID = got.GetRun().GetRunId()
	d.printLine("run", "%s of %s@%s", d.runID, got.GetRun().GetPack().GetId(), got.GetRun().GetPack().GetVersion())
	return nil
}
