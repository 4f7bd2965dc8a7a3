package export

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// contextText returns the content of context.md: the pack and status, the variables, the input and what was said in
// between.
func contextText(got *pawlv1.GetRunResponse, records []*pawlv1.Record) string {
	var b strings.Builder
	run := got.GetRun()
	fmt.Fprintf(&b, "# Run %s\n\n", run.GetRunId())
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "- %s: %s\n", label, text)
		}
	}
	line("pack", fmt.Sprintf("%s@%s (%s)", run.GetPack().GetId(), run.GetPack().GetVersion(), run.GetPack().GetDigest()))
	line("entry", run.GetEntry())
	line("agent", run.GetAgent())
	line("status", output.StatusText(run.GetStatus(), run.GetReason()))
	line("request id", got.GetRequestId())
	line("started", formatTime(run.GetCreatedAt()))
	line("updated", formatTime(run.GetUpdatedAt()))
	line("steps", fmt.Sprint(toolSteps(records...)))
	b.WriteString("\n## Variables\n\n")
	fence(&b, "json", indented(got.GetVariablesJson()))
	b.WriteString("\n## Input\n")
	for _, r := range records {
		if in := r.GetInputReceived(); in != nil {
			fmt.Fprintf(&b, "\n%s\n", Text(in.GetParts()))
		}
	}
	inBetween(&b, records)
	return b.String()
}

// inBetween writes a section with the steering messages that the run received, and with the notices that the sidecar
// added for its models.
func inBetween(b *strings.Builder, records []*pawlv1.Record) {
	head := "\n## Said in between\n"
	for _, r := range records {
		author, text := "the sidecar", r.GetNoticeAdded().GetText()
		if steered := r.GetSteered(); steered != nil {
			author, text = r.GetPrincipal()+" ("+output.Bare("SteerWhen", steered.GetWhen().String())+")", steered.GetText()
		}
		if text != "" {
			fmt.Fprintf(b, "%s\n%s, %s:\n\n%s\n", head, author, formatTime(r.GetAt()), text)
			head = ""
		}
	}
}

// fence writes a block of code. Its fence is longer than any fence in the text.
func fence(b *strings.Builder, language, text string) {
	mark := "```"
	for strings.Contains(text, mark) {
		mark += "`"
	}
	fmt.Fprintf(b, "%s%s\n%s\n%s\n", mark, language, text, mark)
}

func indented(text string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		return text
	}
	return b.String()
}

// artifactText returns the value of the artifact with the given name, or with that name and the ending ".md".
func artifactText(artifacts []*pawlv1.Artifact, name string) string {
	for _, a := range artifacts {
		if n := a.GetHead().GetName(); n == name || n == name+".md" {
			return valueText(a.GetValue())
		}
	}
	return ""
}

// memory returns the value of the artifact "memory". If there is none, it returns the messages of the states whose
// conversation is kept (persistent).
func (w *Workspace) memory(ctx context.Context, got *pawlv1.GetRunResponse, records []*pawlv1.Record) (string, error) {
	if text := artifactText(got.GetArtifacts(), "memory"); text != "" {
		return text, nil
	}
	run := got.GetRun()
	graph, err := w.Packs.GetPackGraph(ctx, &pawlv1.GetPackGraphRequest{
		Namespace: w.Namespace, Pack: run.GetPack().GetDigest(), Agent: run.GetAgent(),
	})
	if err != nil {
		return "", err
	}
	persistent := map[string]bool{}
	for _, node := range graph.GetNodes() {
		persistent[node.GetName()] = node.GetPersistent()
	}
	return remembered(records, persistent), nil
}

// remembered returns the messages of the persistent states in their order. It includes steering messages (from a person
// to the running agent), notices of the sidecar, and the last answer of a turn that was stopped.
func remembered(records []*pawlv1.Record, persistent map[string]bool) string {
	var b strings.Builder
	say := func(role, state, text string) {
		if text != "" && persistent[state] {
			fmt.Fprintf(&b, "## %s (%s)\n\n%s\n\n", role, state, text)
		}
	}
	state := ""
	answers := map[uint32]string{}
	for _, r := range records {
		switch body := r.GetBody().(type) {
		case *pawlv1.Record_Transition:
			state = body.Transition.GetToState()
		case *pawlv1.Record_InputReceived:
			say("user", state, Text(body.InputReceived.GetParts()))
		case *pawlv1.Record_Steered:
			say("user", state, body.Steered.GetText())
		case *pawlv1.Record_NoticeAdded:
			say("notice", state, body.NoticeAdded.GetText())
		case *pawlv1.Record_StepResolved:
			answers[body.StepResolved.GetStep()] = Text(body.StepResolved.GetAnswer().GetParts())
		case *pawlv1.Record_Stopped:
			say("assistant", state, answers[body.Stopped.GetConversationThroughStep()])
		case *pawlv1.Record_TurnCompleted:
			for _, m := range body.TurnCompleted.GetMessages() {
				say(m.GetRole(), state, Text(m.GetParts()))
			}
			if len(body.TurnCompleted.GetMessages()) == 0 {
				say("assistant", state, Text(body.TurnCompleted.GetOutput()))
			}
		}
	}
	return b.String()
}
