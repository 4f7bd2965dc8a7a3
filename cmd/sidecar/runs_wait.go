package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// longestWait bounds one call of WaitRun. The command repeats the call until it is finished.
const longestWait = 5 * time.Minute

func newRunsWait(p *output.Printer, c *client) *cobra.Command {
	until, timeout := "TERMINAL", time.Duration(0)
	cmd := &cobra.Command{
		Use:   "wait RUN",
		Short: "Wait until a run has ended or waits for an outside event",
		Long: `Waits until a run has ended. With --until WAITING it also returns when the run waits for an event,
an input or a decision from outside.

Exit codes: 0 the run ended COMPLETED, or waits; 1 it ended with another status, or --timeout passed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := enumValue(pawlv1.WaitUntil_value, pawlv1.WaitUntil_name, "WaitUntil", "--until", until)
			if err != nil {
				return err
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				req := &pawlv1.WaitRunRequest{Namespace: c.Namespace, RunId: args[0], Until: pawlv1.WaitUntil(n)}
				run, err := waitFor(cmd.Context(), runs, req, timeout)
				if err != nil {
					return err
				}
				return printWaited(p, run)
			})
		},
	}
	cmd.Flags().StringVar(&until, "until", until, "condition to wait for: TERMINAL or WAITING")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "longest wait; 0 = no limit")
	completeFrom(cmd, "until", enumNames(pawlv1.WaitUntil_name, "WaitUntil")...)
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// waitFor calls WaitRun until the condition holds or the timeout has passed.
func waitFor(ctx context.Context, runs pawlv1.RunServiceClient, req *pawlv1.WaitRunRequest, timeout time.Duration) (*pawlv1.Run, error) {
	end := time.Now().Add(timeout)
	for {
		wait := longestWait
		if timeout > 0 {
			wait = min(wait, max(0, time.Until(end)))
		}
		req.Timeout = durationpb.New(wait)
		got, err := runs.WaitRun(ctx, req)
		if err != nil {
			return nil, err
		}
		if !got.GetTimedOut() {
			return got.GetRun(), nil
		}
		if timeout > 0 && !time.Now().Before(end) {
			run := got.GetRun()
			return nil, fmt.Errorf("%s is %s in %s after %s", run.GetRunId(), output.Bare("RunStatus", run.GetStatus().String()), run.GetState(), timeout)
		}
	}
}

func printWaited(p *output.Printer, run *pawlv1.Run) error {
	status := output.Bare("RunStatus", run.GetStatus().String())
	if p.JSON {
		if err := output.WriteJSON(p.Out, output.Object{{Key: "run", Value: output.Run(run)}}); err != nil {
			return err
		}
	} else {
		p.Printf("%s %s %s in %s, seq %d\n", run.GetRunId(), p.Status(status), run.GetReason(), run.GetState(), run.GetSeq())
	}
	switch run.GetStatus() {
	case pawlv1.RunStatus_RUN_STATUS_COMPLETED, pawlv1.RunStatus_RUN_STATUS_WAITING, pawlv1.RunStatus_RUN_STATUS_RUNNING:
		return nil
	}
	return output.Fault()
}
