package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/command"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// longestWait is how long one call of WaitRun may take; the command asks again.
const longestWait = 5 * time.Minute

func newRunsWait(p *output.Printer, c *command.Client) *cobra.Command {
	until, timeout := "TERMINAL", time.Duration(0)
	cmd := &cobra.Command{
		Use:   "wait RUN",
		Short: "Wait for the end of a run, or until it needs a person",
		Long: `Waits for the end of a run, or with --until WAITING until only something from
outside can move it.

Exit codes: 0 it ended COMPLETED, or waits; 1 it ended otherwise, or --timeout is over.`,
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
	cmd.Flags().StringVar(&until, "until", until, "TERMINAL or WAITING")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "longest wait; 0 = no bound")
	completeFrom(cmd, "until", enumNames(pawlv1.WaitUntil_name, "WaitUntil")...)
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// waitFor asks until the run is where it is waited for or the time is over.
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
