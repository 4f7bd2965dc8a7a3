package output

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// checkJSON compares the JSON form with what it has to be, key order included.
func checkJSON(t *testing.T, got any, want string) {
	t.Helper()
	text, err := compact(got)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range strings.Lines(want) {
		b.WriteString(strings.TrimSpace(line))
	}
	if string(text) != b.String() {
		t.Errorf("got\n%s\nwant\n%s", text, b.String())
	}
}

func TestRecordForm(t *testing.T) {
	t.Parallel()
	r := &pawlv1.Record{
		RunId: "R", Seq: 3, PrevSeq: 2, Cursor: "c", At: timestamppb.New(time.Unix(1, 5)),
		Cause: pawlv1.Cause_CAUSE_MAX_VISITS, Principal: "p", PrevHash: []byte{1}, Hash: []byte{0xab},
		Body: &pawlv1.Record_Transition{Transition: &pawlv1.Transition{
			FromState: "a", Event: "E<", ToState: "c", IntendedState: "b", Visit: 1, TotalVisits: 2,
			Redirects: []*pawlv1.Redirect{{State: "b", Guard: "max_visits:b"}},
			ArtifactsWritten: []*pawlv1.ArtifactWrite{
				{Name: "j", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: `{"n":12345678901234567890}`}}},
				{Name: "t", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: "x"}}},
				{Name: "d", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Data{Data: []byte{0xff}}}},
			},
		}},
	}
	checkJSON(t, Record(r), `{"run_id":"R","seq":3,"prev_seq":2,"cursor":"c","at":"1970-01-01T00:00:01.000000005Z",
		"cause":"MAX_VISITS","principal":"p","prev_hash":"01","hash":"ab","redacted":false,"erased":false,"kind":"transition",
		"transition":{"from_state":"a","event":"E<","to_state":"c","intended_state":"b",
		"redirects":[{"state":"b","guard":"max_visits:b"}],"visit":1,"total_visits":2,
		"artifacts_written":[{"name":"j","value":{"n":12345678901234567890}},{"name":"t","value":"x"},{"name":"d","value":"/w=="}],"uncompensated":[],"awaits_input":false,"conversation":false}}`)
}

func TestUnsetFieldsArePresent(t *testing.T) {
	t.Parallel()
	r := &pawlv1.Record{Body: &pawlv1.Record_StepResolved{StepResolved: &pawlv1.StepResolved{Step: 1, Tool: "t", Ok: true, ResultJson: `[1]`}}}
	checkJSON(t, Record(r), `{"run_id":"","seq":0,"prev_seq":0,"cursor":"","at":null,"cause":null,"principal":"",
		"prev_hash":"","hash":"","redacted":false,"erased":false,"kind":"step_resolved","step_resolved":{"step":1,"tool":"t","attempt":0,"ok":true,
		"result_json":[1],"error":null,"unknown":false,"next":0,"deadline":null,"worker":"","artifacts_written":[],"usage":null,"kind":null,"answer":null,"not_before":null}}`)
}

func TestRunBeginsWithWhatScriptsRead(t *testing.T) {
	t.Parallel()
	r := &pawlv1.Run{
		RunId: "R", Status: pawlv1.RunStatus_RUN_STATUS_BUDGET_EXHAUSTED, Reason: "max_visits:a", State: "a",
		Seq: 7, Visits: map[string]int32{"b": 1, "a": 2}, TotalVisits: 3, ToolCalls: 4,
		Artifacts: []*pawlv1.ArtifactHead{{Name: "x", Hash: []byte{1, 2}}},
	}
	artifacts := []*pawlv1.Artifact{{
		Head:  &pawlv1.ArtifactHead{Name: "x"},
		Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: `{"a":[1]}`}},
	}}
	text, err := json.Marshal(RunWith(r, artifacts))
	if err != nil {
		t.Fatal(err)
	}
	begins := `{"id":"R","status":"BUDGET_EXHAUSTED","reason":"max_visits:a","state":"a","seq":7,` +
		`"visits":{"a":2,"b":1},"total_visits":3,"tool_calls":4,"artifacts":{"x":{"a":[1]}},"namespace":""`
	if !strings.HasPrefix(string(text), begins) {
		t.Errorf("run is\n%s\nand does not begin with\n%s", text, begins)
	}
	for _, key := range []string{`"artifact_heads":[{"name":"x"`, `"hash":"0102"`, `"execution":null`, `"turn":null`} {
		if !strings.Contains(string(text), key) {
			t.Errorf("%s is missing in %s", key, text)
		}
	}
	if strings.Contains(string(text), `"run_id"`) || strings.Count(string(text), `"status"`) != 1 {
		t.Errorf("keys are doubled: %s", text)
	}
}

func TestPartsShowTheirContentOnly(t *testing.T) {
	t.Parallel()
	checkJSON(t, Messages([]*pawlv1.Part{
		{Content: &pawlv1.Part_Text{Text: "x"}},
		{Content: &pawlv1.Part_Json{Json: "{}"}, MediaType: "application/json"},
		{Content: &pawlv1.Part_Json{Json: "no json"}, MetadataJson: `{"k":1}`},
	}), `[{"text":"x","media_type":"","filename":"","metadata_json":null},
		{"json":{},"media_type":"application/json","filename":"","metadata_json":null},
		{"json":"no json","media_type":"","filename":"","metadata_json":{"k":1}}]`)
}

// TestMessageHasOneFormPerKind: what stands for itself is no object of fields.
func TestMessageHasOneFormPerKind(t *testing.T) {
	t.Parallel()
	checkJSON(t, []any{
		Message(durationpb.New(1500 * time.Millisecond)),
		Message(timestamppb.New(time.Unix(0, 0))),
		Message(&pawlv1.ArtifactValue{}),
		Message(&pawlv1.Record{Seq: 3}).(Object).Get("seq"),
		Message(&pawlv1.Run{RunId: "R"}).(Object).Get("id"),
	}, `[1.5,"1970-01-01T00:00:00Z",null,3,"R"]`)
}

func TestEveryEnumHasBareNames(t *testing.T) {
	t.Parallel()
	for i := range pawlv1.File_pawl_v1_record_proto.Enums().Len() {
		e := pawlv1.File_pawl_v1_record_proto.Enums().Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			name := enumName(e, v.Number())
			if v.Number() == 0 {
				if name != nil {
					t.Errorf("%s is %v, want nil", v.Name(), name)
				}
				continue
			}
			if text, ok := name.(string); !ok || strings.HasPrefix(text, upperSnake(string(e.Name()))) {
				t.Errorf("%s is %v", v.Name(), name)
			}
		}
	}
	if got := enumName(pawlv1.File_pawl_v1_record_proto.Enums().Get(0), 99); got != int32(99) {
		t.Errorf("an unknown value is %v", got)
	}
}
