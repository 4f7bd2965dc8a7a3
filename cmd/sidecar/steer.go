package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// whens are the values of the flag --when, in the order of the enum values from 1.
var whens = []string{"next_model_call", "now", "next_turn"}

// newSteer returns the command that sends a steering message, a message to an active run.
func newSteer(p *output.Printer, c *client) *cobra.Command {
	when, req := whens[0], &pawlv1.SteerRunRequest{}
	cmd := &cobra.Command{
		Use:   "steer RUN TEXT",
		Short: "Add a message to the next model call of an active run",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.When, err = whenOf(when); err != nil {
				return output.Usage(err)
			}
			req.Namespace, req.RunId, req.Text = c.Namespace, args[0], args[1]
			if req.Text == "" {
				return output.Usage(errors.New("TEXT says what the model is to hear"))
			}
			if req.RequestId == "" {
				req.RequestId = newID("steer")
			}
			return c.With(func(conn *grpc.ClientConn) error {
				got, err := pawlv1.NewControlServiceClient(conn).SteerRun(cmd.Context(), req)
				return printed(p, args[0], got, err)
			})
		},
	}
	cmd.Flags().StringVar(&when, "when", when, "when the message takes effect: "+strings.Join(whens, ", "))
	cmd.Flags().StringVar(&req.RequestId, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

func whenOf(word string) (pawlv1.SteerWhen, error) {
	for i, known := range whens {
		if word == known {
			return pawlv1.SteerWhen(i + 1), nil
		}
	}
	return 0, fmt.Errorf("--when %q: one of %s", word, strings.Join(whens, ", "))
}

// newStop returns the command that stops a run. The run then waits for an input.
func newStop(p *output.Printer, c *client) *cobra.Command {
	req := &pawlv1.StopRunRequest{}
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "Stop the open turn of a run; the run then waits for an input",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Namespace, req.RunId = c.Namespace, args[0]
			if req.RequestId == "" {
				req.RequestId = newID("stop")
			}
			return c.With(func(conn *grpc.ClientConn) error {
				got, err := pawlv1.NewControlServiceClient(conn).StopRun(cmd.Context(), req)
				return printed(p, args[0], got, err)
			})
		},
	}
	cmd.Flags().StringVar(&req.Note, "note", "", "note, stored in the record")
	cmd.Flags().StringVar(&req.RequestId, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// answer is the common part of the responses of the calls that change the status of a run: SteerRun,
// StopRun, PauseRun, ResumeRun, CancelRun.
type answer interface {
	proto.Message
	GetStatus() pawlv1.RunStatus
	GetSeq() uint64
	GetDuplicate() bool
}

func printed(p *output.Printer, run string, got answer, err error) error {
	if err != nil {
		return err
	}
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(got))
	}
	mark := ""
	if got.GetDuplicate() {
		mark = " (the id was used before; this is the first answer)"
	}
	p.Printf("%s %s, seq %d%s\n", run, p.Status(output.Bare("RunStatus", got.GetStatus().String())), got.GetSeq(), mark)
	return nil
}
