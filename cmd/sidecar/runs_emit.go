package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsEmit(p *output.Printer, c *client) *cobra.Command {
	req := &pawlv1.EmitEventRequest{}
	var texts, jsons []string
	cmd := &cobra.Command{
		Use:   "emit RUN EVENT",
		Short: "Emit an event of the run's current state from outside",
		Long: `Emits an event of the run's current state. The event comes from outside, which a state of the
orchestration external or hybrid accepts. The workflow, not the caller, determines the next state.
A repeat with the same --id gets the first answer. With --expected-seq (visit_seq of the run), only the
first of two racing events takes effect.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			req.Namespace, req.RunId, req.Event = c.Namespace, args[0], args[1]
			req.TurnToken = os.Getenv("PAWL_TURN_TOKEN")
			if req.Artifacts, err = artifactFlags(texts, jsons); err != nil {
				return err
			}
			if req.EventId == "" {
				req.EventId = newID("emit")
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				got, err := runs.EmitEvent(cmd.Context(), req)
				if err != nil {
					return err
				}
				return printEmitted(p, got)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVar(&texts, "artifact", nil, "text artifact NAME=TEXT (repeatable)")
	fs.StringArrayVar(&jsons, "artifact-json", nil, "JSON artifact NAME=JSON (repeatable)")
	fs.StringVar(&req.EventId, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	fs.Uint64Var(&req.ExpectedSeq, "expected-seq", 0, "visit_seq that the run must have; 0 = any")
	c.CompleteArgs(cmd, c.RunWords, c.EventWords)
	return cmd
}

func artifactFlags(texts, jsons []string) ([]*pawlv1.ArtifactWrite, error) {
	var writes []*pawlv1.ArtifactWrite
	add := func(flag, pair string, value func(string) *pawlv1.ArtifactValue) error {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return output.Usage(fmt.Errorf("--%s %q is no NAME=VALUE", flag, pair))
		}
		writes = append(writes, &pawlv1.ArtifactWrite{Name: name, Value: value(text)})
		return nil
	}
	for _, pair := range texts {
		err := add("artifact", pair, func(s string) *pawlv1.ArtifactValue {
			return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: s}}
		})
		if err != nil {
			return nil, err
		}
	}
	for _, pair := range jsons {
		err := add("artifact-json", pair, func(s string) *pawlv1.ArtifactValue {
			return &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: s}}
		})
		if err != nil {
			return nil, err
		}
		if _, text, _ := strings.Cut(pair, "="); !json.Valid([]byte(text)) {
			return nil, output.Usage(fmt.Errorf("--artifact-json %q: the value is no JSON", pair))
		}
	}
	return writes, nil
}

func printEmitted(p *output.Printer, got *pawlv1.EmitEventResponse) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(got))
	}
	if t := got.GetTransition().GetTransition(); t != nil {
		p.Printf("%s → %s (visit %d)\n", t.GetFromState(), t.GetToState(), t.GetVisit())
	}
	name, reason, _ := strings.Cut(output.StatusText(got.GetStatus(), got.GetEnded().GetEnded().GetReason()), " ")
	p.Printf("%s, seq %d%s\n", strings.TrimSpace(p.Status(name)+" "+reason), got.GetSeq(), duplicateMark(got.GetDuplicate()))
	return nil
}

func duplicateMark(duplicate bool) string {
	if duplicate {
		return " (the id was used before; this is the first answer)"
	}
	return ""
}
