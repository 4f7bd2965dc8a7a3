package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

func newEvals(p *output.Printer) *cobra.Command {
	c := &client{}
	cmd := group("evals", "List the evals of a pack, and report their results of stored runs", newEvalsList(p, c), newEvalsResults(p, c))
	c.Bind(cmd)
	return cmd
}

// declaredEval is an eval that a pack declares.
type declaredEval struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Prompt  string `json:"prompt"`
	Trigger string `json:"trigger"`
	// Runs reports whether the sidecar runs the eval. Why is the reason if it does not.
	Runs   bool     `json:"runs"`
	Why    string   `json:"why"`
	Metric string   `json:"metric"`
	Groups []string `json:"groups"`
}

func newEvalsList(p *output.Printer, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list PACK",
		Short: "List the evals of a pack, and why the sidecar does not run some of them",
		Long: `Lists the evals of a pack and of its prompts. PACK is a file (JSON or YAML; - is standard input), or a pack
that is registered at the sidecar: id, id@version or digest.

Exit codes: 0 done; 2 the pack could not be read or has errors.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			loaded, err := anyPack(cmd, p, c, args[0])
			if err != nil {
				return err
			}
			found := declaredEvals(loaded)
			if p.JSON {
				return output.WriteJSON(p.Out, output.Object{{Key: "evals", Value: found}})
			}
			t := output.Table{Headers: []string{"EVAL", "TYPE", "PROMPT", "TRIGGER", "METRIC", "RUNS"}}
			for _, e := range found {
				t.Add(e.ID, e.Type, e.Prompt, e.Trigger, e.Metric, cmp.Or(e.Why, "yes"))
			}
			p.Table(t)
			return nil
		},
	}
	c.CompleteArgs(cmd, c.PackWords)
	return cmd
}

// declaredEvals returns the evals that a pack declares: first those of the pack itself, then those of each prompt,
// sorted by the name of the prompt.
func declaredEvals(loaded *pack.Pack) []declaredEval {
	out := []declaredEval{}
	add := func(at, prompt string, list []pack.Eval) {
		for i := range list {
			e := &list[i]
			d := declaredEval{ID: e.ID, Type: e.Type, Prompt: prompt, Trigger: e.Trigger, Groups: append([]string{}, e.Groups...)}
			if e.Metric != nil {
				d.Metric = e.Metric.Name
			}
			d.Why = whyNot(loaded, fmt.Sprintf("%s/evals/%d", at, i), e)
			d.Runs = d.Why == ""
			out = append(out, d)
		}
	}
	add("", "", loaded.Doc.Evals)
	for _, prompt := range sortedNames(loaded.Doc.Prompts) {
		add(source.Pointer("prompts", prompt), prompt, loaded.Doc.Prompts[prompt].Evals)
	}
	return out
}

// whyNot returns the reason why the sidecar does not run an eval; at is the eval's JSON pointer in the pack. It
// returns "" if the sidecar runs the eval.
func whyNot(loaded *pack.Pack, at string, e *pack.Eval) string {
	if e.Enabled != nil && !*e.Enabled {
		return "no: enabled is false"
	}
	for _, d := range loaded.Warnings {
		if d.Code == pack.CodeEvalNotRun && (d.Pointer == at || strings.HasPrefix(d.Pointer, at+"/")) {
			return "no: " + d.Message
		}
	}
	return ""
}
