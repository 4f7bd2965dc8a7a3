package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsShow(p *output.Printer, c *client) *cobra.Command {
	var at uint64
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show a run with its artifacts, family, last output and last error, as it is or as it was at a record",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				got, err := runs.GetRun(cmd.Context(), &pawlv1.GetRunRequest{
					Namespace: c.Namespace, RunId: args[0], AtSeq: at, IncludeArtifacts: true, IncludeVariables: true,
				})
				if err != nil {
					return err
				}
				children, err := childrenOf(cmd.Context(), runs, got.GetRun())
				if err != nil {
					return err
				}
				newest, err := export.NewestRecords(cmd.Context(), runs, got.GetRun(), export.NewestWindow)
				if err != nil {
					return err
				}
				lost, said, failed := lostOf(newest), export.LastOutput(newest), export.LastError(got.GetRun(), newest)
				if p.JSON {
					return output.WriteJSON(p.Out, output.Object{
						{Key: "run", Value: output.RunWith(got.GetRun(), got.GetArtifacts())}, {Key: "children", Value: childObjects(children)},
						{Key: "lost", Value: lost}, {Key: "output", Value: output.Messages(said)}, {Key: "last_error", Value: failed}, {Key: "goal", Value: got.GetGoal()}, {Key: "request_id", Value: got.GetRequestId()},
						{Key: "budgets", Value: output.Message(got.GetBudgets())},
					})
				}
				printRun(p, got.GetRun(), got.GetArtifacts())
				printBeginning(p, got)
				printLine(p, "lost", lost)
				printLine(p, "output", export.Text(said))
				printLine(p, "last error", output.Shorten(failed, maxShownError))
				printChildren(p, children)
				return nil
			})
		},
	}
	cmd.Flags().Uint64Var(&at, "at", 0, "seq of the record at which to read the run; 0 = its current state")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// lostOf describes the event that should have been followed when the run ended. It returns "" if there is none, or if
// the run has not ended.
func lostOf(records []*pawlv1.Record) string {
	for _, record := range records {
		if ended := record.GetEnded(); ended != nil {
			return output.Lost(ended)
		}
	}
	return ""
}

// printRun prints a run as text.
func printRun(p *output.Printer, r *pawlv1.Run, artifacts []*pawlv1.Artifact) {
	line := func(label, format string, args ...any) { printLine(p, label, fmt.Sprintf(format, args...)) }
	line("run", "%s", r.GetRunId())
	line("pack", "%s", packName(r.GetPack()))
	line("status", "%s", statusName(p, r)+strings.TrimPrefix(output.StatusText(r.GetStatus(), r.GetReason()), output.Bare("RunStatus", r.GetStatus().String())))
	line("state", "%s", r.GetState())
	line("agent", "%s", r.GetAgent())
	line("parent", "%s", parentOf(r))
	line("visits", "%d (%s)", r.GetTotalVisits(), visitsOf(r))
	line("records", "%d, %d transitions", r.GetSeq(), r.GetTransitions())
	line("tool calls", "%d", r.GetToolCalls())
	for _, m := range output.Money(r) {
		line(m.Label, "%s", m.Text)
	}
	line("waiting", "%s", r.GetWaiting().GetSentence())
	line("started", "%s", moment(r.GetCreatedAt()))
	line("updated", "%s", moment(r.GetUpdatedAt()))
	line("deadline", "%s", moment(r.GetDeadline()))
	line("events", "%s", strings.Join(r.GetAllowedEvents(), ", "))
	if t := r.GetTurn(); t != nil {
		line("turn", "%d of %s, visit %d, attempt %d", t.GetTurnSeq(), t.GetState(), t.GetVisit(), t.GetAttempt())
	}
	for _, s := range r.GetSteps() {
		if s.GetKind() == pawlv1.StepKind_STEP_KIND_MODEL && s.GetStatus() == pawlv1.StepStatus_STEP_STATUS_PENDING {
			line("asks", "%s", output.ModelStepText(s))
		}
	}
	for _, a := range artifacts {
		line("artifact", "%s (%s) %s", a.GetHead().GetName(), a.GetHead().GetMediaType(),
			output.Shorten(fmt.Sprintf("%s", output.ArtifactValue(a.GetValue())), 100))
	}
}

// maxShownGoal bounds a goal in the text output, in characters. JSON output contains the whole goal.
const maxShownGoal = 200

// printBeginning prints how a run was started: its goal, its request id and its bounds.
func printBeginning(p *output.Printer, got *pawlv1.GetRunResponse) {
	printLine(p, "goal", output.Shorten(got.GetGoal(), maxShownGoal))
	printLine(p, "request id", got.GetRequestId())
	printLine(p, "budgets", boundsText(got))
}

// boundsText lists the bounds that apply to a run. The operator's bound comes last.
func boundsText(got *pawlv1.GetRunResponse) string {
	b := got.GetBudgets()
	var parts []string
	for _, bound := range []struct {
		name string
		n    int64
	}{
		{"max_total_visits", int64(b.GetMaxTotalVisits())}, {"max_tool_calls", int64(b.GetMaxToolCalls())},
		{"max_wall_time_sec", int64(b.GetMaxWallTime().AsDuration().Seconds())}, {"max_steps", int64(b.GetMaxSteps())},
		{"max_reframes", int64(b.GetMaxReframes())}, {"max_tokens", b.GetMaxTokens()}, {"max_cost_micro_usd", b.GetMaxCostMicroUsd()},
		{"max_transitions", int64(got.GetRun().GetLimits().GetMaxTransitions())},
	} {
		if bound.n != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", bound.name, bound.n))
		}
	}
	return strings.Join(parts, ", ")
}

// printLine prints a line with a label. It prints nothing if the text is empty.
func printLine(p *output.Printer, label, text string) {
	if text != "" {
		p.Printf("%s %s\n", p.Dim(fmt.Sprintf("%-11s", label)), text)
	}
}

// visitsOf returns a text with the number of visits of each state, sorted by the name of the state.
func visitsOf(r *pawlv1.Run) string {
	var parts []string
	for _, state := range sortedNames(r.GetVisits()) {
		parts = append(parts, fmt.Sprintf("%s %d", state, r.GetVisits()[state]))
	}
	return strings.Join(parts, ", ")
}

func statusName(p *output.Printer, r *pawlv1.Run) string {
	name := p.Status(output.Bare("RunStatus", r.GetStatus().String()))
	if r.GetPaused() {
		name += " (paused)"
	}
	return name
}

func packName(ref *pawlv1.PackRef) string { return ref.GetId() + "@" + ref.GetVersion() }

func moment(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}
