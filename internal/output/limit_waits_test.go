package output

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestWaits: what a run waits for is a line for each of its calls, and a word for lists.
func TestWaits(t *testing.T) {
	t.Parallel()
	run := &pawlv1.Run{WaitingFor: []*pawlv1.LimitWait{
		{
			Limits: []*pawlv1.LimitKey{{Limit: "openai", Key: "gpt-5"}, {Limit: "all", Key: "all"}}, Model: "gpt-5",
			Waited: durationpb.New(2340 * time.Millisecond), Ahead: 3,
		},
		{Limits: []*pawlv1.LimitKey{{Limit: "mail"}}, Tool: "send_mail", Step: 4, Waited: durationpb.New(time.Second)},
	}}
	want := []string{"limit openai (gpt-5), all: model gpt-5, for 2.3s, 3 before it", "limit mail: tool send_mail, step 4, for 1s"}
	if got := LimitWaitLines(run); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := WaitReason(run); got != "waits for limit openai (gpt-5), all" {
		t.Error(got)
	}
	if none := (&pawlv1.Run{}); len(LimitWaitLines(none)) != 0 || WaitReason(none) != "" {
		t.Errorf("of a run that waits for nothing: %q, %q", LimitWaitLines(none), WaitReason(none))
	}
}
