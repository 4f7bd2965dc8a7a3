package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// newApprovals returns the commands that list held tool calls (calls that wait for a person's decision) and runs that
// wait for an event from outside, and that decide about the calls.
func newApprovals(p *output.Printer) *cobra.Command {
	c := &client{}
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "Calls that wait for a person: list, show, approve, deny, edit, history",
		Long: `A pack can hold calls of a tool until a person decides (x_pawl.tools.NAME.approve). These commands
list the held calls, decide about them, and list the decisions that were made. A decision needs the
scope steps:approve.`,
	}
	cmd.AddCommand(newList(p, c), newShow(p, c), newHistory(p, c))
	for _, d := range decisions {
		cmd.AddCommand(newDecide(p, c, d))
	}
	c.Bind(cmd)
	return cmd
}

func newList(p *output.Printer, c *client) *cobra.Command {
	req := &pawlv1.ListApprovalsRequest{}
	var oldest bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the calls and runs that wait for a decision, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req.Namespace = c.Namespace
			if oldest {
				req.Order = pawlv1.RunOrder_RUN_ORDER_OLDEST_FIRST
			}
			return c.With(func(conn *grpc.ClientConn) error {
				got, err := pawlv1.NewControlServiceClient(conn).ListApprovals(cmd.Context(), req)
				if err != nil {
					return err
				}
				return printList(p, got)
			})
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&oldest, "oldest", false, "list the oldest first")
	fs.Int32Var(&req.PageSize, "limit", 0, "entries of a page, 1 to 1000; 0 = 100")
	fs.StringVar(&req.PageToken, "page-token", "", "token of the next page, as printed by the previous one")
	fs.StringVar(&req.RunId, "run", "", "only calls of this run")
	fs.StringVar(&req.LinkFor, "link-for", "", linkForUsage)
	return cmd
}

func printList(p *output.Printer, got *pawlv1.ListApprovalsResponse) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(got))
	}
	t := output.Table{Headers: []string{"RUN", "STEP", "STATE", "WHAT", "SINCE", "UNTIL"}}
	links := slices.ContainsFunc(got.GetApprovals(), func(a *pawlv1.Approval) bool { return a.GetLink() != "" })
	if links {
		t.Headers = append(t.Headers, "LINK")
	}
	for _, a := range got.GetApprovals() {
		step, what, until := "-", strings.Join(events(a), ", "), ""
		if call := a.GetCall(); call != nil {
			step, what, until = strconv.Itoa(int(call.GetStep())), call.GetTool()+" "+call.GetPayloadJson(), moment(call.GetDeadline())
		}
		row := []string{a.GetRunId(), step, a.GetState(), what, moment(a.GetSince()), until}
		if links {
			row = append(row, a.GetLink())
		}
		t.Add(row...)
	}
	p.Table(t)
	if token := got.GetNextPageToken(); token != "" {
		p.Printf("more: --page-token %s\n", token)
	}
	return nil
}

func events(a *pawlv1.Approval) []string {
	var names []string
	for _, e := range a.GetEvents() {
		names = append(names, e.GetEvent()+" -> "+e.GetToState())
	}
	return names
}

// linkForUsage describes the flag of list and show.
const linkForUsage = "add a decision link for this person, for example alice@example.com"

func newShow(p *output.Printer, c *client) *cobra.Command {
	var person string
	cmd := &cobra.Command{
		Use: "show RUN STEP", Short: "Show a held call with its arguments, its deadline and its digest", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.With(func(conn *grpc.ClientConn) error {
				a, err := find(cmd.Context(), conn, c.Namespace, args, person)
				if err != nil {
					return err
				}
				return printOne(p, a)
			})
		},
	}
	cmd.Flags().StringVar(&person, "link-for", "", linkForUsage)
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

func printOne(p *output.Printer, a *pawlv1.Approval) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(a))
	}
	call := a.GetCall()
	p.Printf("run      %s (%s@%s, state %s), started by %s\n", a.GetRunId(), a.GetPackId(), a.GetPackVersion(), a.GetState(), a.GetStarter())
	p.Printf("call     step %d, %s\n%s\n", call.GetStep(), call.GetTool(), call.GetPayloadJson())
	p.Printf("digest   %s\n", call.GetApproval().GetDigest())
	if a.GetConditionError() != "" {
		p.Printf("held     the condition could not be evaluated: %s\n", a.GetConditionError())
	}
	p.Printf("since    %s, until %s: then %s\n", moment(a.GetSince()), moment(call.GetDeadline()), timeouts[a.GetOnTimeout()])
	if a.GetLink() != "" {
		p.Printf("link     %s\n", a.GetLink())
	}
	p.Printf("approve  it goes out as it is; deny: the turn is answered with the error DENIED\n")
	return nil
}

var timeouts = map[pawlv1.ApprovalTimeout]string{
	pawlv1.ApprovalTimeout_APPROVAL_TIMEOUT_DENY:     "it is denied",
	pawlv1.ApprovalTimeout_APPROVAL_TIMEOUT_ESCALATE: "the run ends ESCALATED",
}

// find returns the held tool call of a step, which waits for a person's decision. If person is not "", the result
// contains a link with which this person can decide.
func find(ctx context.Context, conn *grpc.ClientConn, namespace string, args []string, person string) (*pawlv1.Approval, error) {
	step, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return nil, output.Usage(fmt.Errorf("STEP is a number, got %q", args[1]))
	}
	req := &pawlv1.ListApprovalsRequest{Namespace: namespace, RunId: args[0], PageSize: 1000, LinkFor: person}
	for {
		got, err := pawlv1.NewControlServiceClient(conn).ListApprovals(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, a := range got.GetApprovals() {
			if a.GetCall() != nil && uint64(a.GetCall().GetStep()) == step {
				return a, nil
			}
		}
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			return nil, decidedBefore(ctx, conn, namespace, args[0], uint32(step))
		}
	}
}

// decidedBefore returns the error about a step that does not wait for a decision. It names the last decision, if there was one and if
// the caller may read the records of the run.
func decidedBefore(ctx context.Context, conn *grpc.ClientConn, namespace, run string, step uint32) error {
	text := fmt.Sprintf("step %d of run %s does not wait for a decision", step, run)
	decisions, err := records(ctx, pawlv1.NewRunServiceClient(conn), namespace, run, []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED})
	if err != nil {
		return errors.New(text)
	}
	for _, record := range slices.Backward(decisions) {
		d := record.GetStepDecided()
		if d.GetStep() != step {
			continue
		}
		text += fmt.Sprintf(": it was decided before: %s at %s, record %d", output.Bare("StepVerdict", d.GetVerdict().String()), moment(record.GetAt()), record.GetSeq())
		if by := record.GetPrincipal(); by != "" {
			text += ", by " + by
		}
		if reason := d.GetReason(); reason != "" {
			text += ": " + reason
		}
		break
	}
	return errors.New(text)
}

// decision describes one of the commands that decide about a held tool call.
type decision struct {
	use, short string
	is         pawlv1.StepDecision
	args       int
}

var decisions = []decision{
	{"approve RUN STEP", "Approve a held call unchanged", pawlv1.StepDecision_STEP_DECISION_APPROVE, 2},
	{"deny RUN STEP", "Deny a held call: its answer is the error DENIED", pawlv1.StepDecision_STEP_DECISION_DENY, 2},
	{"edit RUN STEP JSON", "Approve a held call with other arguments", pawlv1.StepDecision_STEP_DECISION_EDIT, 3},
}

func newDecide(p *output.Printer, c *client, d decision) *cobra.Command {
	req := &pawlv1.DecideStepRequest{Decision: d.is}
	var expires time.Duration
	cmd := &cobra.Command{
		Use: d.use, Short: d.short, Args: cobra.ExactArgs(d.args),
		Long: d.short + `. The decision is about the call that waits now. With
--digest it is refused if that call is not the one that "approvals show" printed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if expires < 0 {
				return output.Usage(errors.New("--expires is a time from now"))
			}
			return c.With(func(conn *grpc.ClientConn) error {
				if err := prepare(cmd.Context(), conn, c.Namespace, args, req); err != nil {
					return err
				}
				if expires > 0 {
					req.Expires = timestamppb.New(time.Now().Add(expires))
				}
				got, err := pawlv1.NewControlServiceClient(conn).DecideStep(cmd.Context(), req)
				if err != nil {
					return err
				}
				return printDecided(p, args[0], got)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&req.Digest, "digest", "", "digest of the call as printed by \"approvals show\"; default: the call that waits now")
	fs.StringVar(&req.Reason, "reason", "", "reason, stored in the record; the model receives that of a denial")
	fs.StringVar(&req.RequestId, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	if d.is != pawlv1.StepDecision_STEP_DECISION_DENY {
		fs.DurationVar(&expires, "expires", 0, "time within which the call must start, else it is held again, for example 10m; 0 = no limit")
	}
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// prepare fills in the request for a decision from the command's arguments. If the user gave no digest, it takes the
// digest of the call that waits for the decision.
func prepare(ctx context.Context, conn *grpc.ClientConn, namespace string, args []string, req *pawlv1.DecideStepRequest) error {
	step, err := strconv.ParseUint(args[1], 10, 32)
	if err != nil {
		return output.Usage(fmt.Errorf("STEP is a number, got %q", args[1]))
	}
	req.Namespace, req.RunId, req.Step = namespace, args[0], uint32(step)
	if len(args) > 2 {
		req.PayloadJson = args[2]
	}
	if req.RequestId == "" {
		req.RequestId = newID("decide")
	}
	if req.Digest != "" {
		return nil
	}
	a, err := find(ctx, conn, namespace, args, "")
	if err != nil {
		return err
	}
	if req.Digest = a.GetCall().GetApproval().GetDigest(); req.Digest == "" {
		return errors.New("the call is sensitive and is not shown without the scope values:sensitive; only a principal with that scope can decide about it")
	}
	return nil
}

func printDecided(p *output.Printer, run string, got *pawlv1.DecideStepResponse) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(got))
	}
	d := got.GetDecided().GetStepDecided()
	word := strings.ToLower(strings.TrimPrefix(d.GetVerdict().String(), "STEP_VERDICT_"))
	p.Printf("%s step %d %s %s, seq %d\n", run, d.GetStep(), d.GetTool(), word, got.GetSeq())
	return nil
}
