package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// newWorkers returns the commands that show the connected workers.
func newWorkers(p *output.Printer) *cobra.Command {
	c := &client{}
	cmd := group("workers", "Show the connected workers and what they hold", newWorkersList(p, c), newWorkersShow(p, c))
	c.Bind(cmd)
	return cmd
}

// listWorkers calls do with the connected workers of the namespace.
func listWorkers(cmd *cobra.Command, c *client, do func(*pawlv1.ListWorkersResponse) error) error {
	return c.With(func(conn *grpc.ClientConn) error {
		got, err := pawlv1.NewWorkerServiceClient(conn).ListWorkers(cmd.Context(), &pawlv1.ListWorkersRequest{Namespace: c.Namespace})
		if err != nil {
			return err
		}
		return do(got)
	})
}

func newWorkersList(p *output.Printer, c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the connected workers, with what they serve and hold",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listWorkers(cmd, c, func(got *pawlv1.ListWorkersResponse) error {
				if p.JSON {
					return output.WriteJSON(p.Out, output.Message(got))
				}
				t := output.Table{Headers: []string{"WORKER", "PROMPTS", "AGENTS", "TOOLS", "TURNS", "STEPS", "FAILED", "CONNECTED", "SEEN", "STATE"}}
				for _, w := range got.GetWorkers() {
					t.Add(w.GetWorkerId(), strings.Join(w.GetPrompts(), ", "), strings.Join(w.GetAgents(), ", "), strings.Join(w.GetTools(), ", "),
						heldText(w.GetHeldTurns(), w.GetTurnCapacity()), heldText(w.GetHeldSteps(), w.GetStepCapacity()),
						failedText(w), moment(w.GetConnectedAt()), moment(w.GetSeenAt()), workerState(w))
				}
				p.Table(t)
				return nil
			})
		},
	}
}

func newWorkersShow(p *output.Printer, c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "show WORKER",
		Short: "Show a connected worker with the turns and steps that it holds",
		Long: `Shows a connected worker with the turns and steps that it holds. For the first 20 turns it also
shows what their runs wait for, for example an approval: such a turn keeps its place until the
worker releases it (suspend_after).`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.With(func(conn *grpc.ClientConn) error {
				got, err := pawlv1.NewWorkerServiceClient(conn).ListWorkers(cmd.Context(), &pawlv1.ListWorkersRequest{Namespace: c.Namespace})
				if err != nil {
					return err
				}
				runs := pawlv1.NewRunServiceClient(conn)
				return showWorkers(p, args[0], got, func(run string) (string, error) { return waitOf(cmd.Context(), runs, c.Namespace, run) })
			})
		},
	}
}

// maxShownWaits bounds the turns of a worker whose runs are read, because each needs a call.
const maxShownWaits = 20

// waitOf returns the sentence about what a run waits for. It returns "" if the run only waits for the worker that has its turn, or if it was
// deleted.
func waitOf(ctx context.Context, runs pawlv1.RunServiceClient, ns, run string) (string, error) {
	got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: ns, RunId: run})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	wait := got.GetRun().GetWaiting()
	if err != nil || wait.GetStep() == 0 && wait.GetKind() == pawlv1.WaitingKind_WAITING_KIND_WORKER {
		return "", err
	}
	return wait.GetSentence(), nil
}

// showWorkers shows the workers with an id. waitOf returns what the run of a turn waits for. Several principals can each have a worker with
// the same id.
func showWorkers(p *output.Printer, id string, got *pawlv1.ListWorkersResponse, waitOf func(run string) (string, error)) error {
	var shown []*pawlv1.ConnectedWorker
	for _, w := range got.GetWorkers() {
		if w.GetWorkerId() == id {
			shown = append(shown, w)
		}
	}
	all := int(got.GetTotalWorkers()) <= len(got.GetWorkers())
	switch {
	case len(shown) == 0 && all:
		return fmt.Errorf("no worker %q is connected; \"pawl workers list\" lists those that are", id)
	case len(shown) == 0:
		return fmt.Errorf("no worker %q is among the first %d of %d connected workers, and no others are listed", id, len(got.GetWorkers()), got.GetTotalWorkers())
	case !all:
		p.Warnf("only the first %d of %d connected workers are listed: others with this id may be missing", len(got.GetWorkers()), got.GetTotalWorkers())
	}
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(&pawlv1.ListWorkersResponse{Workers: shown, TotalWorkers: int32(len(shown))}))
	}
	for _, w := range shown {
		waits := map[string]string{}
		for _, turn := range w.GetTurns()[:min(len(w.GetTurns()), maxShownWaits)] {
			var err error
			if waits[turn.GetRunId()], err = waitOf(turn.GetRunId()); err != nil {
				return err
			}
		}
		showWorker(p, w, waits)
	}
	return nil
}

// showWorker shows a worker as text. waits are sentences about what the runs of its turns wait for, by the id of the run.
func showWorker(p *output.Printer, w *pawlv1.ConnectedWorker, waits map[string]string) {
	printLine(p, "worker", w.GetWorkerId())
	printLine(p, "principal", w.GetPrincipal())
	printLine(p, "client", w.GetClient())
	printLine(p, "packs", strings.Join(w.GetPacks(), ", "))
	printLine(p, "prompts", strings.Join(w.GetPrompts(), ", "))
	printLine(p, "agents", strings.Join(w.GetAgents(), ", "))
	printLine(p, "tools", strings.Join(w.GetTools(), ", "))
	printLine(p, "turns", heldText(w.GetHeldTurns(), w.GetTurnCapacity()))
	printLine(p, "steps", heldText(w.GetHeldSteps(), w.GetStepCapacity()))
	printLine(p, "turn counts", countsText(w.GetTurnCounts()))
	printLine(p, "step counts", countsText(w.GetStepCounts()))
	printLine(p, "connected", moment(w.GetConnectedAt()))
	printLine(p, "seen", moment(w.GetSeenAt()))
	printLine(p, "state", workerState(w))
	if f := w.GetLastFailure(); f != nil {
		printLine(p, "last failure", failureText(f))
	}
	for _, t := range w.GetTurns() {
		printLine(p, "turn", fmt.Sprintf("%s %d, attempt %d, since %s", t.GetRunId(), t.GetTurnSeq(), t.GetAttempt(), moment(t.GetSince())))
		printLine(p, "", waits[t.GetRunId()])
	}
	for _, s := range w.GetSteps() {
		printLine(p, "step", fmt.Sprintf("%s %d (%s), attempt %d", s.GetRunId(), s.GetStep(), s.GetTool(), s.GetAttempt()))
	}
}

func heldText(held, capacity int32) string { return fmt.Sprintf("%d of %d", held, capacity) }

// failedText returns how many of the turns and steps that a worker received it failed or lost.
func failedText(w *pawlv1.ConnectedWorker) string {
	t, s := w.GetTurnCounts(), w.GetStepCounts()
	return fmt.Sprintf("%d of %d", t.GetFailed()+t.GetLost()+s.GetFailed()+s.GetLost(), t.GetTaken()+s.GetTaken())
}

func countsText(c *pawlv1.WorkCounts) string {
	return fmt.Sprintf("%d taken, %d failed, %d lost", c.GetTaken(), c.GetFailed(), c.GetLost())
}

func failureText(f *pawlv1.WorkFailure) string {
	work := "prompt " + f.GetPrompt()
	switch {
	case f.GetTool() != "":
		work = "tool " + f.GetTool()
	case f.GetAgent() != "":
		work = "agent " + f.GetAgent()
	}
	end := "failed"
	if f.GetLost() {
		end = "lost"
	}
	text := fmt.Sprintf("%s %s %s in run %s, attempt %d: %s", moment(f.GetAt()), work, end, f.GetRunId(), f.GetAttempt(), f.GetError().GetCode())
	if message := f.GetError().GetMessage(); message != "" {
		text += ": " + message
	}
	return text
}

func workerState(w *pawlv1.ConnectedWorker) string {
	state := "connected"
	if w.GetDraining() {
		state = "draining"
	}
	if w.GetFailingMoreThanPeers() {
		state += ", failing more than peers"
	}
	return state
}
