package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// forkFlags are the flags of `runs fork` that are not fields of the request.
type forkFlags struct {
	execution                string
	labels, vars, varsJSON   []string
	artifacts, artifactsJSON []string
	reuse                    bool
}

func newRunsFork(p *output.Printer, c *client) *cobra.Command {
	req := &pawlv1.ForkRunRequest{}
	var flags forkFlags
	cmd := &cobra.Command{
		Use:   "fork RUN",
		Short: "Start a new run as a copy of another run at one of its records",
		Long: `Starts a new run as a copy of RUN in its current state or, with --at, at an earlier record. It does not
change RUN. The new run has the visits, artifacts and conversations of RUN. Its totals and wall time
start at zero, and its open turn is executed again. To repair an ended run, fork it at a record before
its end (see pawl runs trace --all).`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Namespace, req.RunId = c.Namespace, args[0]
			if err := flags.fill(cmd, req); err != nil {
				return err
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				got, err := runs.ForkRun(cmd.Context(), req)
				if err != nil {
					return err
				}
				return printFork(p, got)
			})
		},
	}
	flags.bind(cmd, req)
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

func (f *forkFlags) bind(cmd *cobra.Command, req *pawlv1.ForkRunRequest) {
	fs := cmd.Flags()
	fs.Uint64Var(&req.AtSeq, "at", 0, "seq of the record at which to read the run; 0 = its current state")
	fs.StringVar(&req.Pack, "pack", "", "pack of the new run: id, id@version or digest (default: that of RUN)")
	fs.StringArrayVar(&f.artifacts, "artifact", nil, "text artifact to set at the start, NAME=TEXT (repeatable)")
	fs.StringArrayVar(&f.artifactsJSON, "artifact-json", nil, "JSON artifact to set at the start, NAME=JSON (repeatable)")
	fs.StringArrayVar(&f.vars, "var", nil, "text variable to change, NAME=TEXT (repeatable)")
	fs.StringArrayVar(&f.varsJSON, "var-json", nil, "JSON variable to change, NAME=JSON (repeatable)")
	fs.StringSliceVar(&f.labels, "label", nil, "label to set, KEY=VALUE (repeatable)")
	fs.StringVar(&f.execution, "execution", "", "executor of the turns: CALLER or WORKERS (default: that of RUN)")
	fs.BoolVar(&f.reuse, "reuse-steps", false, "take the answers of the visit's steps from the records (default: true unless pack or artifacts change)")
	fs.Int32Var(&req.MaxSteps, "max-steps", 0, "lower limit of steps than the pack's max_steps; 0 = that of the pack")
	fs.Int32Var(&req.MaxWallTimeSec, "max-wall-time-sec", 0, "lower limit of the wall time than the pack's, in seconds; 0 = that of the pack")
	fs.StringVar(&req.RequestId, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	completeFrom(cmd, "execution", enumNames(pawlv1.Execution_name, "Execution")...)
}

func (f *forkFlags) fill(cmd *cobra.Command, req *pawlv1.ForkRunRequest) (err error) {
	if req.Artifacts, err = artifactFlags(f.artifacts, f.artifactsJSON); err != nil {
		return err
	}
	if req.VariablesJson, err = variableFlags(f.vars, f.varsJSON); err != nil {
		return err
	}
	if req.Labels, err = pairs("label", f.labels); err != nil {
		return err
	}
	if f.execution != "" {
		n, err := enumValue(pawlv1.Execution_value, pawlv1.Execution_name, "Execution", "--execution", f.execution)
		if err != nil {
			return err
		}
		req.Execution = pawlv1.Execution(n)
	}
	if cmd.Flags().Changed("reuse-steps") {
		req.ReuseSteps = &f.reuse
	}
	if req.RequestId == "" {
		req.RequestId = newID("fork")
	}
	return nil
}

// variableFlags returns the variables of the flags as one JSON object. It returns "" if there are none.
func variableFlags(texts, jsons []string) (string, error) {
	given, err := pairs("var", texts)
	if err != nil {
		return "", err
	}
	values := map[string]any{}
	for name, text := range given {
		values[name] = text
	}
	exact, err := pairs("var-json", jsons)
	if err != nil {
		return "", err
	}
	for name, text := range exact {
		if !json.Valid([]byte(text)) {
			return "", output.Usage(fmt.Errorf("--var-json %s=%s: the value is no JSON", name, text))
		}
		values[name] = json.RawMessage(text)
	}
	if len(values) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(values)
	return string(raw), err
}

// pairs parses words of the form NAME=VALUE. It returns nil if there are none.
func pairs(flag string, words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	out := make(map[string]string, len(words))
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, output.Usage(fmt.Errorf("--%s %q is no NAME=VALUE", flag, word))
		}
		out[name] = value
	}
	return out, nil
}

func printFork(p *output.Printer, got *pawlv1.ForkRunResponse) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(got))
	}
	from := got.GetRun().GetForkedFrom()
	p.Printf("%s%s\n", got.GetRun().GetRunId(), duplicateMark(got.GetDuplicate()))
	p.Printf("from %s at %d, in %s, %s\n", from.GetRunId(), from.GetSeq(), got.GetRun().GetState(), statusName(p, got.GetRun()))
	if from.GetSteps() > 0 {
		p.Printf("%d answered steps are reused\n", from.GetSteps())
	}
	return nil
}
