package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// startFlags are the flags of `runs start` that are not fields of the request.
type startFlags struct {
	agent, state, execution, variables, input string
	labels, vars, varsJSON                    []string
}

func newRunsStart(p *output.Printer, c *client) *cobra.Command {
	req := &pawlv1.StartRunRequest{}
	var flags startFlags
	cmd := &cobra.Command{
		Use:   "start PACK",
		Short: "Start a run of a registered pack",
		Long: `Starts a run of a registered pack and prints its id. Connected workers execute its turns. With
--execution CALLER, the caller of GetTurn executes them. With SIDECAR, the sidecar calls its own models
(serve --model). A repeat with the same --id gets the first answer.`,
		Example: `  pawl runs start code-agent --var goal="Fix the tests" --input "Begin." --label team=a`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Namespace, req.Pack = c.Namespace, args[0]
			if err := flags.fill(req); err != nil {
				return err
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				got, err := runs.StartRun(cmd.Context(), req)
				if err != nil {
					return err
				}
				return printStarted(p, got)
			})
		},
	}
	flags.bind(cmd, req)
	c.CompleteArgs(cmd, c.PackWords)
	return cmd
}

func (f *startFlags) bind(cmd *cobra.Command, req *pawlv1.StartRunRequest) {
	fs := cmd.Flags()
	fs.StringVar(&f.agent, "agent", "", "agent of the pack to start, or prompt of a pack without workflow and agents")
	fs.StringVar(&f.state, "state", "", "state to enter instead of the workflow's entry; needs the scope admin")
	fs.StringVar(&f.execution, "execution", "WORKERS", "executor of the turns: CALLER, WORKERS or SIDECAR")
	fs.StringArrayVar(&f.vars, "var", nil, "text variable NAME=TEXT (repeatable)")
	fs.StringArrayVar(&f.varsJSON, "var-json", nil, "JSON variable NAME=JSON (repeatable)")
	fs.StringVar(&f.variables, "variables", "", "file with the variables as one JSON object, instead of --var")
	fs.StringVar(&f.input, "input", "", "first message of the run, as text")
	fs.StringArrayVar(&f.labels, "label", nil, "label of the run, KEY=VALUE (repeatable)")
	fs.Int32Var(&req.MaxSteps, "max-steps", 0, "lower limit of steps than the pack's max_steps; 0 = that of the pack")
	fs.BoolVar(&req.Conversation, "conversation", false, "a user talks with the run: after a transition it waits for an input, except in states with control: agent")
	fs.StringVar(&req.RequestId, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	completeFrom(cmd, "execution", enumNames(pawlv1.Execution_name, "Execution")...)
	cmd.MarkFlagsMutuallyExclusive("agent", "state")
	cmd.MarkFlagsMutuallyExclusive("variables", "var")
	cmd.MarkFlagsMutuallyExclusive("variables", "var-json")
}

func (f *startFlags) fill(req *pawlv1.StartRunRequest) (err error) {
	n, err := enumValue(pawlv1.Execution_value, pawlv1.Execution_name, "Execution", "--execution", f.execution)
	if err != nil {
		return err
	}
	req.Execution = pawlv1.Execution(n)
	switch {
	case f.agent != "":
		req.Entry = &pawlv1.StartRunRequest_Agent{Agent: f.agent}
	case f.state != "":
		req.Entry = &pawlv1.StartRunRequest_State{State: f.state}
	}
	if req.VariablesJson, err = f.variablesJSON(); err != nil {
		return err
	}
	if f.input != "" {
		req.Input = []*pawlv1.Part{textPart(f.input)}
	}
	if req.Labels, err = pairs("label", f.labels); err != nil {
		return err
	}
	if req.RequestId == "" {
		req.RequestId = newID("start")
	}
	return nil
}

func (f *startFlags) variablesJSON() (string, error) {
	if f.variables == "" {
		return variableFlags(f.vars, f.varsJSON)
	}
	raw, err := os.ReadFile(f.variables)
	if err != nil {
		return "", output.Usage(fmt.Errorf("--variables: %w", err))
	}
	return string(raw), nil
}

func textPart(text string) *pawlv1.Part { return &pawlv1.Part{Content: &pawlv1.Part_Text{Text: text}} }

func printStarted(p *output.Printer, got *pawlv1.StartRunResponse) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(got))
	}
	run := got.GetRun()
	p.Printf("%s %s in %s%s\n", run.GetRunId(), p.Status(output.Bare("RunStatus", run.GetStatus().String())), run.GetState(), duplicateMark(got.GetDuplicate()))
	return nil
}
