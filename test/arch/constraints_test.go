package arch

import (
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

const run = `"run_id": "01JZZZZZZZZZZZZZZZZZZZZZZZ"`

// TestConstraints says for each request what is refused, and on which field. An
// empty field: the request is taken.
func TestConstraints(t *testing.T) {
	t.Parallel()
	turn := run + `, "turn_seq": 1, "attempt": 1`
	for _, c := range []struct {
		message proto.Message
		json    string
		field   string
	}{
		{&pawlv1.ValidatePackRequest{}, `{"content": "e30="}`, ""},
		{&pawlv1.ValidatePackRequest{}, `{"content": "e30=", "strict_schema": "1.5.0"}`, ""},
		{&pawlv1.ValidatePackRequest{}, `{"content": "e30=", "strict_schema": "1.3.1"}`, "strict_schema"},
		{&pawlv1.RegisterPackRequest{}, `{}`, "content"},
		{&pawlv1.GetPackRequest{}, `{}`, "pack"},
		{&pawlv1.ListPacksRequest{}, `{"page_size": 1001}`, "page_size"},
		{&pawlv1.ListPacksRequest{}, `{"page_size": -1}`, "page_size"},
		{&pawlv1.GetPackGraphRequest{}, `{"pack": "p@1.0.0"}`, ""},

		{&pawlv1.StartRunRequest{}, `{"pack": "p", "execution": "EXECUTION_CALLER"}`, ""},
		{&pawlv1.StartRunRequest{}, `{"pack": "p"}`, "execution"},
		{&pawlv1.StartRunRequest{}, `{"pack": "p", "execution": 9}`, "execution"},
		{&pawlv1.StartRunRequest{}, `{"execution": 1}`, "pack"},
		{&pawlv1.StartRunRequest{}, `{"pack": "p", "execution": 1, "agent": ""}`, "agent"},
		{&pawlv1.StartRunRequest{}, `{"pack": "p", "execution": 1, "labels": {"a b": ""}}`, `labels["a b"]`},
		{&pawlv1.StartRunRequest{}, `{"pack": "p", "execution": 1, "labels": {"team/a": "x y"}}`, ""},
		{&pawlv1.StartRunRequest{}, `{"pack": "p", "execution": 1, "input": [{}]}`, "input[0].content"},
		{&pawlv1.StartRunRequest{}, `{"pack": "p", "execution": 1, "max_steps": -1}`, "max_steps"},

		{&pawlv1.EmitEventRequest{}, `{` + run + `, "event": "Done"}`, ""},
		{&pawlv1.EmitEventRequest{}, `{` + run + `}`, "event"},
		{&pawlv1.EmitEventRequest{}, `{"run_id": "01jzzzzzzzzzzzzzzzzzzzzzzz", "event": "Done"}`, "run_id"},
		{&pawlv1.EmitEventRequest{}, `{"run_id": "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "event": "Done"}`, "run_id"},
		{&pawlv1.EmitEventRequest{}, `{"event": "Done"}`, "run_id"},
		{&pawlv1.EmitEventRequest{}, `{` + run + `, "event": "Done", "artifacts": [{"name": "a"}]}`, "artifacts[0].value"},
		{&pawlv1.EmitEventRequest{}, `{` + run + `, "event": "Done", "artifacts": [{"name": "a", "value": {}}]}`, "artifacts[0].value.value"},
		{&pawlv1.EmitEventRequest{}, `{` + run + `, "event": "Done", "artifacts": [{"value": {"text": ""}}]}`, "artifacts[0].name"},
		{&pawlv1.EmitEventRequest{}, `{` + run + `, "event": "Done", "event_id": "` + strings.Repeat("x", 129) + `"}`, "event_id"},
		{&pawlv1.SetArtifactsRequest{}, `{` + run + `}`, "artifacts"},
		{&pawlv1.SendInputRequest{}, `{` + run + `}`, "parts"},
		{&pawlv1.SendInputRequest{}, `{` + run + `, "parts": [{"text": ""}]}`, ""},
		{&pawlv1.SendInputRequest{}, `{` + run + `, "parts": [{"uri": ""}]}`, "parts[0].uri"},
		{&pawlv1.GetTurnRequest{}, `{` + run + `}`, ""},

		{&pawlv1.CompleteTurnRequest{}, `{` + turn + `}`, ""},
		{&pawlv1.CompleteTurnRequest{}, `{` + run + `, "turn_seq": 1}`, "attempt"},
		{&pawlv1.CompleteTurnRequest{}, `{` + run + `, "attempt": 1}`, "turn_seq"},
		{&pawlv1.CompleteTurnRequest{}, `{` + turn + `, "messages": [{"role": "robot"}]}`, "messages[0].role"},
		{&pawlv1.CompleteTurnRequest{}, `{` + turn + `, "usage": {"input_tokens": "-1"}}`, "usage.input_tokens"},
		{&pawlv1.FailTurnRequest{}, `{` + turn + `}`, "error"},
		{&pawlv1.FailTurnRequest{}, `{` + turn + `, "error": {}}`, "error.code"},
		{&pawlv1.SuspendTurnRequest{}, `{` + turn + `}`, ""},
		{&pawlv1.RequestStepRequest{}, `{` + turn + `}`, "requests"},
		{&pawlv1.RequestStepRequest{}, `{` + turn + `, "requests": [{}]}`, "requests[0].tool"},
		{&pawlv1.ResolveStepRequest{}, `{` + run + `, "step": 1, "tool": "t", "attempt": 1, "result_json": "{}"}`, ""},
		{&pawlv1.ResolveStepRequest{}, `{` + run + `, "step": 1, "tool": "t", "attempt": 1}`, "answer"},
		{&pawlv1.ResolveStepRequest{}, `{` + run + `, "step": 1, "tool": "t", "error": {"code": "E"}}`, "attempt"},
		{&pawlv1.ResolveStepRequest{}, `{` + run + `, "step": 1, "tool": "t", "attempt": -1, "error": {"code": "E"}}`, "attempt"},
		{&pawlv1.ResolveStepRequest{}, `{` + run + `, "tool": "t", "attempt": 1, "error": {"code": "E"}}`, "step"},

		{&pawlv1.StreamTransitionsRequest{}, `{}`, ""},
		{&pawlv1.StreamTransitionsRequest{}, `{` + run + `, "after_seq": 3}`, ""},
		{&pawlv1.StreamTransitionsRequest{}, `{"after_seq": 3}`, "stream.after_seq"},
		{&pawlv1.StreamTransitionsRequest{}, `{` + run + `, "filter": {}}`, "stream.filter"},
		{&pawlv1.StreamTransitionsRequest{}, `{"filter": {"reason": "x"}}`, "stream.lists"},
		{&pawlv1.StreamTransitionsRequest{}, `{"filter": {"created_after": "2026-01-01T00:00:00Z"}}`, "stream.lists"},
		{&pawlv1.StreamTransitionsRequest{}, `{"filter": {"unserved": true}}`, "stream.lists"},
		{&pawlv1.StreamTransitionsRequest{}, `{"filter": {"waiting": ["WAITING_KIND_LIMIT"]}}`, "stream.lists"},
		{&pawlv1.ListRunsRequest{}, `{"filter": {"waiting": ["WAITING_KIND_LIMIT"]}}`, ""},
		{&pawlv1.ListRunsRequest{}, `{"filter": {"waiting": ["WAITING_KIND_UNSPECIFIED"]}}`, "filter.waiting[0]"},
		{&pawlv1.ListRunsRequest{}, `{"filter": {"waiting": ["WAITING_KIND_LIMIT"], "unserved": true}}`, "list.waiting"},
		{&pawlv1.StreamTransitionsRequest{}, `{"from_now": true, "follow": true}`, ""},
		{&pawlv1.StreamTransitionsRequest{}, `{"from_now": true, "after_cursor": "x"}`, "stream.from_now"},
		{&pawlv1.StreamTransitionsRequest{}, `{"consumer": "billing", "after_cursor": "x", "filter": {"pack": "p"}}`, ""},
		{&pawlv1.StreamTransitionsRequest{}, `{` + run + `, "consumer": "billing"}`, "stream.consumer"},
		{&pawlv1.StreamTransitionsRequest{}, `{"consumer": "no name"}`, "consumer"},
		{&pawlv1.AckConsumerRequest{}, `{"consumer": "billing", "cursor": "x"}`, ""},
		{&pawlv1.AckConsumerRequest{}, `{"consumer": "billing"}`, "cursor"},
		{&pawlv1.DeleteConsumerRequest{}, `{}`, "consumer"},
		{&pawlv1.PutWebhookRequest{}, `{"webhook_id": "w", "url": "https://x"}`, ""},
		{&pawlv1.PutWebhookRequest{}, `{"webhook_id": "w"}`, "url"},
		{&pawlv1.PutWebhookRequest{}, `{"webhook_id": "w", "url": "https://x", "kinds": [0]}`, "kinds[0]"},
		{&pawlv1.PutWebhookRequest{}, `{"webhook_id": "w", "url": "https://x", "filter": {"reason": "r"}}`, "webhook.filter"},
		{&pawlv1.PutWebhookRequest{}, `{"webhook_id": "w", "url": "https://x", "filter": {"waiting": ["WAITING_KIND_LIMIT"]}}`, "webhook.filter"},
		{&pawlv1.GetWebhookRequest{}, `{"webhook_id": "a/b"}`, "webhook_id"},
		{&pawlv1.ListDeliveriesRequest{}, `{"page_size": 1001}`, "page_size"},
		{&pawlv1.ListDeadLettersRequest{}, `{}`, "delivery_ref"},
		{&pawlv1.ListDeadLettersRequest{}, `{"delivery_ref": {"id": "w"}}`, "delivery_ref.kind"},
		{&pawlv1.ResendDeadLetterRequest{}, `{"delivery_ref": {"kind": "DELIVERY_KIND_WEBHOOK", "id": "w"}}`, "n"},
		{&pawlv1.DiscardDeadLetterRequest{}, `{"delivery_ref": {"kind": "DELIVERY_KIND_WEBHOOK", "id": "w"}}`, "n"},
		{&pawlv1.ShowTurnRequest{}, `{` + run + `}`, "turn_seq"},
		{&pawlv1.CountRunsRequest{}, `{}`, ""},
		{&pawlv1.GetCallerRequest{}, `{}`, ""},
		{&pawlv1.StreamTransitionsRequest{}, `{` + run + `, "after_seq": 3, "after_cursor": "x"}`, "stream.position"},
		{&pawlv1.StreamTransitionsRequest{}, `{` + run + `, "output": true, "follow": true}`, ""},
		{&pawlv1.StreamTransitionsRequest{}, `{` + run + `, "output": true}`, "stream.output"},
		{&pawlv1.StreamTransitionsRequest{}, `{"kinds": [0]}`, "kinds[0]"},
		{&pawlv1.ListTransitionsRequest{}, `{` + run + `, "kinds": [1, 1]}`, "kinds"},
		{&pawlv1.GetRunRequest{}, `{` + run + `, "at_seq": 5}`, ""},
		{&pawlv1.ListRunsRequest{}, `{"filter": {"statuses": [0]}}`, "filter.statuses[0]"},
		{&pawlv1.ListRunsRequest{}, `{"order": 7}`, "order"},
		{&pawlv1.WaitRunRequest{}, `{` + run + `, "timeout": "600s"}`, ""},
		{&pawlv1.WaitRunRequest{}, `{` + run + `, "timeout": "600.001s"}`, "timeout"},
		{&pawlv1.WaitRunRequest{}, `{` + run + `, "timeout": "-1s"}`, "timeout"},
		{&pawlv1.PauseRunRequest{}, `{` + run + `, "note": "` + strings.Repeat("x", 1025) + `"}`, "note"},
		{&pawlv1.ResumeRunRequest{}, `{}`, "run_id"},
		{&pawlv1.CancelRunRequest{}, `{` + run + `}`, ""},

		{&pawlv1.WorkRequest{}, `{"register": {"worker_id": "w-1", "prompts": ["*"], "turn_capacity": 1}}`, ""},
		{&pawlv1.WorkRequest{}, `{"register": {}}`, "register.worker_id"},
		{&pawlv1.WorkRequest{}, `{"register": {"worker_id": "a b"}}`, "register.worker_id"},
		{&pawlv1.WorkRequest{}, `{"register": {"worker_id": "w", "tools": ["t", "t"]}}`, "register.tools"},
		{&pawlv1.WorkRequest{}, `{"register": {"worker_id": "w", "prompts": [""]}}`, "register.prompts[0]"},
		{&pawlv1.WorkRequest{}, `{"register": {"worker_id": "w", "turn_capacity": 10001}}`, "register.turn_capacity"},
		{&pawlv1.WorkRequest{}, `{"register": {"worker_id": "w", "held_turns": [{}]}}`, "register.held_turns[0].run_id"},
		{&pawlv1.WorkRequest{}, `{"register": {"worker_id": "w", "held_steps": [{` + run + `, "step": 1, "attempt": 1}]}}`, "register.held_steps[0].tool"},
		{&pawlv1.WorkRequest{}, `{"credits": {"turns": 1}}`, ""},
		{&pawlv1.WorkRequest{}, `{"credits": {"turns": -1}}`, "credits.turns"},
		{&pawlv1.WorkRequest{}, `{"heartbeat": {}}`, ""},
		{&pawlv1.WorkRequest{}, `{"output": {"text": "x"}}`, "output.token"},
		{&pawlv1.WorkRequest{}, `{"output": {"token": "t", "offset": "-1"}}`, "output.offset"},
		{&pawlv1.WorkRequest{}, `{"release": {}}`, "release.work"},
		{&pawlv1.WorkRequest{}, `{"complete_turn": {` + run + `, "turn_seq": 1}}`, "complete_turn.attempt"},
	} {
		name := string(c.message.ProtoReflect().Descriptor().Name()) + " " + c.field
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := protojson.Unmarshal([]byte(c.json), c.message); err != nil {
				t.Fatal(err)
			}
			if got := violated(t, protovalidate.Validate(c.message)); got != c.field {
				t.Fatalf("violated %q, want %q", got, c.field)
			}
		})
	}
}

// violated names the first violated field, or the rule where a message breaks
// one as a whole.
func violated(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var violations *protovalidate.ValidationError
	if !asViolations(err, &violations) {
		t.Fatal(err)
	}
	first := violations.Violations[0].Proto
	if path := protovalidate.FieldPathString(first.GetField()); path != "" {
		return path
	}
	return first.GetRuleId()
}
