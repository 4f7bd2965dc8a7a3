package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// decideWithin is how long the demo waits for a person to decide about a payment. After that the demo approves the
// payment itself.
const decideWithin = 60 * time.Second

// crashOrder is the number of the order during whose payment the demo kills the app and the sidecar.
const crashOrder = "18"

// RefundOptions are the settings of the refund demo.
type RefundOptions struct {
	Options
	// Person is the input from a person at the terminal, with one line for each payment that needs approval. If it is
	// nil, the demo approves such a payment itself.
	Person io.Reader
}

// RunRefunds runs the refund demo: an agent pays refunds, and each payment is a line in a ledger file. App and sidecar are killed between
// a payment and its record. A payment above 100 waits for a person. The budget of the run stops a model that would otherwise pay for
// ever. RunRefunds returns an error if the run differs from the expected run. It needs no network and no Go toolchain.
func RunRefunds(ctx context.Context, o RefundOptions) error {
	return o.inDir(ctx, func(ctx context.Context) error {
		r := &refundDemo{
			RefundOptions: o, ledger: Ledger{Path: filepath.Join(o.Dir, "ledger.jsonl")}, listen: "127.0.0.1:0", http: "127.0.0.1:0",
		}
		return errors.Join(r.runDemo(ctx), r.close())
	})
}

// refundDemo is a refund demo in progress.
type refundDemo struct {
	RefundOptions
	ledger Ledger
	// listen and http are the addresses of the sidecar. After the first start they are the addresses that the first process got, so that
	// clients find the second process at the same place.
	listen, http string
	process      *process
	app          *exec.Cmd
	client       *pawl.Client
	run          *pawl.Run
	lines        chan string
	// decided is called when there is a decision about the payment that waits, of a person or of the demo. It ends the
	// demo's wait.
	decided context.CancelFunc
	// facts are counts that the demo computes from the records of the run.
	facts refundFacts
}

// refundFacts are counts about the run, for the checks at the end and for -o json.
type refundFacts struct {
	// Paid are the idempotency keys of the payments that are recorded as made.
	Paid []string `json:"-"`
	// Approved and Denied count decisions about held payments.
	Approved int `json:"approved"`
	Denied   int `json:"denied"`
	// LookedUp counts the payments for which the crash left open whether they were made. find_payment then looks for
	// them in the ledger.
	LookedUp int `json:"looked_up"`
	// Crashes counts the SIGKILLs of app and sidecar together.
	Crashes int `json:"crashes"`
}

func (r *refundDemo) close() error {
	var errs []error
	if r.app != nil {
		errs = append(errs, killApp(r.app))
	}
	if r.client != nil {
		errs = append(errs, r.client.Close())
	}
	if r.process != nil {
		errs = append(errs, r.process.kill())
	}
	return errors.Join(errs...)
}

// runDemo runs the demo from start to end.
func (r *refundDemo) runDemo(ctx context.Context) error {
	r.printIntroduction()
	pack := filepath.Join(r.Dir, "refunds.pack.yaml")
	content, err := assets.ReadFile("assets/refunds.pack.yaml")
	if err == nil {
		err = os.WriteFile(pack, content, 0o600)
	}
	if err != nil {
		return err
	}
	if err := r.start(); err != nil {
		return err
	}
	if r.client, err = pawl.NewClient(pawl.Options{Addr: r.listen, RetryFor: readyWithin}); err != nil {
		return err
	}
	if r.run, err = r.client.Start(ctx, refundStart()); err != nil {
		return err
	}
	r.printLine("run", "%s, shown at http://%s/runs/%s", r.run.ID(), r.http, r.run.ID())
	records := make(chan error, 1)
	go func() { records <- r.follow(ctx) }()
	if err := r.runApp(ctx, crashOrder); err != nil {
		return err
	}
	if err := r.runApp(ctx, ""); err != nil {
		return err
	}
	if err := <-records; err != nil {
		return err
	}
	return r.finish(ctx)
}

func (r *refundDemo) printIntroduction() {
	if r.Printer.JSON {
		return
	}
	r.Printer.Printf(`%s

  The agent pays refunds. Each payment is a line in a ledger file that removes no duplicates.
  The model is recorded, and it never stops paying by itself. All else is real: a sidecar
  process, an app process, SIGKILL, and a run on disk.

`, r.Printer.Bold("A refund desk: a crash in the middle of a payment, an approval, a budget"))
}

func (r *refundDemo) place() []string {
	return []string{"--data", filepath.Join(r.Dir, "data")}
}

// start starts the sidecar. After a crash, the new process gets the addresses of the previous one.
func (r *refundDemo) start() (err error) {
	// After a restart, the sidecar keeps a step for the worker that had it during the restart grace.
	// The killed app never returns as this worker, so the demo sets a short grace.
	args := append(r.place(), "--restart-grace", "2s", "--listen", r.listen, "--http", r.http, "--pack", filepath.Join(r.Dir, "refunds.pack.yaml"),
		"--allow-tool", "pay", "--allow-tool", "find_payment")
	if r.process, err = startProcess(r.Binary, r.Dir, args); err != nil {
		return err
	}
	r.listen, r.http = r.process.addr, r.process.http
	r.printLine("sidecar", "process %d serves %s, ready after %d ms", r.process.cmd.Process.Pid, r.listen, r.process.ready.Milliseconds())
	return nil
}

// runApp runs the app until it ends. If the app hangs in the payment of the order hangAt, runApp kills the app and the sidecar, and
// starts the sidecar again.
func (r *refundDemo) runApp(ctx context.Context, hangAt string) error {
	r.app = exec.CommandContext(ctx, r.Binary, "demo", "app", "--addr", r.listen, "--ledger", r.ledger.Path, "--hang-at", hangAt)
	r.app.Args[0] = "pawl"
	r.app.Env = environment()
	r.app.Stderr = r.process.log
	out, err := r.app.StdoutPipe()
	if err != nil {
		return err
	}
	// The pipe ends with this process, even if it is killed, and the app ends with the pipe.
	if _, err := r.app.StdinPipe(); err != nil {
		return err
	}
	if err := r.app.Start(); err != nil {
		return fmt.Errorf("start app: %w", err)
	}
	r.printLine("app", "process %d executes prompts and tools", r.app.Process.Pid)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil && strings.TrimSpace(line) == Hanging {
		return r.crash()
	}
	err = r.app.Wait()
	r.app = nil
	if err != nil {
		return fmt.Errorf("the app failed (see %s): %w", r.process.log.Name(), err)
	}
	return nil
}

// crash kills app and sidecar and starts the sidecar again.
func (r *refundDemo) crash() error {
	r.printLine("SIGKILL", "to app %d and sidecar %d: order %s is in the ledger, and its record is not written", r.app.Process.Pid, r.process.cmd.Process.Pid, crashOrder)
	errs := errors.Join(killApp(r.app), r.process.kill())
	r.app, r.process = nil, nil
	r.facts.Crashes++
	if errs != nil {
		return errs
	}
	return r.start()
}

// killApp ends the app at once and waits until it has ended.
func killApp(app *exec.Cmd) error {
	err := app.Process.Kill()
	var exit *exec.ExitError
	if waited := app.Wait(); !errors.As(waited, &exit) {
		err = errors.Join(err, waited)
	}
	return err
}

// follow prints the records of the run, also across the crash, and decides about a payment that needs approval. It
// returns when the run has ended.
func (r *refundDemo) follow(ctx context.Context) error {
	kinds := []pawlv1.RecordKind{
		pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED, pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_STEP_REJECTED,
		pawlv1.RecordKind_RECORD_KIND_STEP_OUTCOME_UNKNOWN, pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED, pawlv1.RecordKind_RECORD_KIND_TRANSITION,
		pawlv1.RecordKind_RECORD_KIND_ENDED,
	}
	payments := map[uint32]Payment{}
	for record, err := range r.run.Transitions(ctx, 0, kinds...) {
		if err != nil {
			return fmt.Errorf("records of the run: %w", err)
		}
		if err := r.printRecord(ctx, record, payments); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// printRecord prints one record of the run and counts it in r.facts for the checks at the end.
func (r *refundDemo) printRecord(ctx context.Context, record *pawlv1.Record, payments map[uint32]Payment) error {
	switch body := record.GetBody().(type) {
	case *pawlv1.Record_StepRequested:
		if body.StepRequested.GetTool() != "pay" {
			return nil
		}
		var p Payment
		if err := json.Unmarshal([]byte(body.StepRequested.GetPayloadJson()), &p); err != nil {
			return err
		}
		payments[body.StepRequested.GetStep()] = p
		if body.StepRequested.GetHold() != nil {
			return r.hold(ctx, body.StepRequested.GetStep(), p)
		}
	case *pawlv1.Record_StepDecided:
		r.decided()
		switch body.StepDecided.GetVerdict() {
		case pawlv1.StepVerdict_STEP_VERDICT_APPROVED, pawlv1.StepVerdict_STEP_VERDICT_EDITED:
			r.facts.Approved++
			r.printLine("approved", "step %d", body.StepDecided.GetStep())
		default:
			r.facts.Denied++
			r.printLine("denied", "step %d: no payment", body.StepDecided.GetStep())
		}
	case *pawlv1.Record_StepOutcomeUnknown:
		r.facts.LookedUp++
		r.printLine("unknown", "whether step %d was paid is not known: find_payment looks into the ledger", body.StepOutcomeUnknown.GetStep())
	case *pawlv1.Record_StepResolved:
		if body.StepResolved.GetTool() != "pay" || !body.StepResolved.GetOk() {
			return nil
		}
		p := payments[body.StepResolved.GetStep()]
		r.facts.Paid = append(r.facts.Paid, fmt.Sprintf("%s/%d", r.run.ID(), body.StepResolved.GetStep()))
		r.printLine("paid", "order %s, %.2f, as step %d", p.Order, p.Amount, body.StepResolved.GetStep())
	case *pawlv1.Record_Transition:
		if body.Transition.GetToState() == "closed" {
			r.printLine("budget", "another payment does not fit: the model is not asked again, the run goes to %q", "closed")
		}
	case *pawlv1.Record_Ended:
		r.printLine("ended", "%s (%s)", strings.TrimPrefix(body.Ended.GetStatus().String(), "RUN_STATUS_"), body.Ended.GetReason())
	}
	return nil
}

// hold gets the decision about a payment that needs approval. Without a person at the terminal it approves at once.
// Otherwise a goroutine waits for the decision, while records are still printed. The decision can come from the web
// page, the command line or the terminal. The first one applies.
func (r *refundDemo) hold(ctx context.Context, step uint32, p Payment) error {
	r.printLine("held", "order %s, %.2f: above 100, so a person decides about exactly this call", p.Order, p.Amount)
	waiting, cancel := context.WithCancel(ctx)
	r.decided = cancel
	if r.Person == nil {
		return r.decide(ctx, step, pawlv1.StepDecision_STEP_DECISION_APPROVE, "approved by the demo")
	}
	r.printLine("", "approve it on the page above, or press Enter here; d and Enter denies it")
	if r.lines == nil {
		r.lines = make(chan string)
		go func() {
			for lines := bufio.NewScanner(r.Person); lines.Scan(); {
				r.lines <- lines.Text()
			}
		}()
	}
	go func() {
		decision, reason := pawlv1.StepDecision_STEP_DECISION_APPROVE, "approved at the terminal"
		select {
		case <-waiting.Done():
			return
		case line := <-r.lines:
			if strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "d") {
				decision, reason = pawlv1.StepDecision_STEP_DECISION_DENY, "denied at the terminal"
			}
		case <-time.After(decideWithin):
			reason = "no decision within a minute: approved by the demo"
		}
		if err := r.decide(waiting, step, decision, reason); err != nil && waiting.Err() == nil {
			r.printLine("", "the decision was refused: %v", err)
		}
	}()
	return nil
}

// decide decides about a held step.
func (r *refundDemo) decide(ctx context.Context, step uint32, decision pawlv1.StepDecision, reason string) error {
	control := pawlv1.NewControlServiceClient(r.client.Conn())
	got, err := control.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{RunId: r.run.ID()})
	if err != nil {
		return err
	}
	for _, a := range got.GetApprovals() {
		if call := a.GetCall(); call.GetStep() == step {
			_, err := control.DecideStep(ctx, &pawlv1.DecideStepRequest{
				RunId: r.run.ID(), Step: step, Digest: call.GetApproval().GetDigest(), Decision: decision, Reason: reason,
			})
			return err
		}
	}
	return fmt.Errorf("step %d waits for no decision", step)
}
