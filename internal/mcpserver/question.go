package mcpserver

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
)

// questionKey identifies the question that a run asks now. A later question of the run has another key.
func questionKey(run *pawlv1.Run) string {
	return fmt.Sprintf("question-%d-%d", run.GetStatusAt().AsTime().UnixNano(), run.GetWaiting().GetStep())
}

// question returns the question of a run as a form with one text.
func (c *session) question(ctx context.Context, run *pawlv1.Run) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form", Message: c.questionText(ctx, run), RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{answerField: map[string]any{"type": "string", "title": "Answer"}}, "required": []string{answerField},
	}}
}

// questionText returns the last text of a run, which is its question. If the run has no text, the result describes the
// run instead.
func (c *session) questionText(ctx context.Context, run *pawlv1.Run) string {
	if run.GetWaiting().GetStep() == 0 {
		if records, err := c.newest(ctx, run); err == nil {
			if text := export.Text(export.LastOutput(records)); text != "" {
				return text
			}
		}
	}
	return run.GetWaiting().GetSentence()
}

// answer sends the answer to the question of a run. If the person declines, sent is false, and the run continues to
// wait.
func (c *session) answer(ctx context.Context, run *pawlv1.Run, answer *sdk.ElicitResult) (sent bool, err error) {
	if answer.Action != "accept" {
		return false, nil
	}
	text, ok := answer.Content[answerField].(string)
	if !ok {
		return false, badArgument("the answer to %s: want {%q: a string}", questionKey(run), answerField)
	}
	return true, c.send(ctx, run, text, "mcp-"+questionKey(run))
}

// send sends a text as the answer to a run that asks a question. messageID is the idempotency id of the answer.
func (c *session) send(ctx context.Context, run *pawlv1.Run, text, messageID string) error {
	_, err := c.service.runs.SendInput(ctx, &pawlv1.SendInputRequest{
		Namespace: c.namespace, RunId: run.GetRunId(), Parts: []*pawlv1.Part{textPart(text)}, MessageId: messageID, Step: run.GetWaiting().GetStep(),
	})
	return err
}

// elicits reports whether a client can ask its user by a form. Since revision 2026-07-28 each request says so in _meta, before it
// the first request of a connection. The HTTP requests of older clients do not say it, because they have no connection.
func elicits(of *sdk.ServerSession, meta sdk.Meta) bool {
	if capabilities := capabilitiesOf(meta); capabilities != nil {
		modes, ok := capabilities["elicitation"].(map[string]any)
		_, form := modes["form"]
		return ok && (form || len(modes) == 0)
	}
	first := of.InitializeParams()
	if first == nil || first.Capabilities == nil || first.Capabilities.Elicitation == nil {
		return false
	}
	modes := first.Capabilities.Elicitation
	return modes.Form != nil || modes.URL == nil
}

// capabilitiesOf returns the capabilities that a request declares. It returns nil if it declares none.
func capabilitiesOf(meta sdk.Meta) map[string]any {
	capabilities, _ := meta[sdk.MetaKeyClientCapabilities].(map[string]any)
	return capabilities
}

// supportsTasks reports whether a request declares the extension for tasks.
func supportsTasks(meta sdk.Meta) bool {
	extensions, _ := capabilitiesOf(meta)["extensions"].(map[string]any)
	_, ok := extensions[tasksExtension]
	return ok
}
