package convert

import (
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/waiting"
)

// TestEnumsAgree walks the enums that are converted by number.
func TestEnumsAgree(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, prefix string
		wire         map[int32]string
		engine       []string
	}{
		{"RunStatus", "RUN_STATUS_", pawlv1.RunStatus_name, []string{
			int(machine.StatusUnset): "UNSPECIFIED", int(machine.Running): "RUNNING", int(machine.Waiting): "WAITING",
			int(machine.Completed): "COMPLETED", int(machine.BudgetExhausted): "BUDGET_EXHAUSTED",
			int(machine.Escalated): "ESCALATED", int(machine.Failed): "FAILED", int(machine.Cancelled): "CANCELLED",
		}},
		{"Execution", "EXECUTION_", pawlv1.Execution_name, []string{
			int(machine.ExecutionUnset): "UNSPECIFIED", int(machine.Caller): "CALLER", int(machine.Workers): "WORKERS", int(machine.Sidecar): "SIDECAR",
		}},
		{"Cause", "CAUSE_", pawlv1.Cause_name, []string{
			int(machine.CauseUnset): "UNSPECIFIED", int(machine.CauseEntry): "ENTRY", int(machine.CauseEvent): "EVENT",
			int(machine.CauseMaxVisits): "MAX_VISITS", int(machine.CauseTimeout): "TIMEOUT",
			int(machine.CauseBudget): "BUDGET",
		}},
		{"StepStatus", "STEP_STATUS_", pawlv1.StepStatus_name, []string{
			"UNSPECIFIED", int(machine.StepStatusPending): "PENDING", int(machine.StepStatusOK): "OK",
			int(machine.StepStatusError): "ERROR", int(machine.StepStatusCancelled): "CANCELLED",
		}},
		{"Disposition", "DISPOSITION_", pawlv1.Disposition_name, []string{
			"UNSPECIFIED", int(machine.Accepted): "ACCEPTED", int(machine.IgnoredUnknownRun): "IGNORED_UNKNOWN_RUN",
			int(machine.IgnoredTerminal): "IGNORED_TERMINAL", int(machine.IgnoredStale): "IGNORED_STALE",
			int(machine.IgnoredDuplicate): "IGNORED_DUPLICATE", int(machine.DispEscalated): "ESCALATED",
		}},
		{"RecordKind", "RECORD_KIND_", pawlv1.RecordKind_name, []string{
			"UNSPECIFIED", int(machine.RecTransition): "TRANSITION", int(machine.RecInputReceived): "INPUT_RECEIVED",
			int(machine.RecTurnOpened): "TURN_OPENED", int(machine.RecTurnAssigned): "TURN_ASSIGNED",
			int(machine.RecTurnCompleted): "TURN_COMPLETED", int(machine.RecTurnFailed): "TURN_FAILED",
			int(machine.RecTurnAbandoned): "TURN_ABANDONED", int(machine.RecTurnSuspended): "TURN_SUSPENDED",
			int(machine.RecStepRequested): "STEP_REQUESTED", int(machine.RecStepResolved): "STEP_RESOLVED",
			int(machine.RecStepRejected): "STEP_REJECTED", int(machine.RecStepCancelled): "STEP_CANCELLED",
			int(machine.RecArtifactsSet): "ARTIFACTS_SET", int(machine.RecPaused): "PAUSED", int(machine.RecResumed): "RESUMED",
			int(machine.RecOrigin): "ORIGIN", int(machine.RecEnded): "ENDED", int(machine.RecTurnReady): "TURN_READY",
			int(machine.RecOutputWritten): "OUTPUT_WRITTEN", int(machine.RecStepDelegated): "STEP_DELEGATED",
			int(machine.RecNoChange): "NO_CHANGE", int(machine.RecModelUpdated): "MODEL_UPDATED",
			int(machine.RecStepDecided):        "STEP_DECIDED",
			int(machine.RecBudgetRaised):       "BUDGET_RAISED",
			int(machine.RecStepOutcomeUnknown): "STEP_OUTCOME_UNKNOWN", int(machine.RecCompensationStarted): "COMPENSATION_STARTED",
			int(machine.RecSteered): "STEERED", int(machine.RecStopped): "STOPPED", int(machine.RecNoticeAdded): "NOTICE_ADDED",
			int(machine.RecEvaluated): "EVALUATED",
		}},
		{"WaitingKind", "WAITING_KIND_", pawlv1.WaitingKind_name, []string{
			int(waiting.Nothing): "UNSPECIFIED", int(waiting.Approval): "APPROVAL", int(waiting.NoWorker): "NO_WORKER",
			int(waiting.Worker): "WORKER", int(waiting.Limit): "LIMIT", int(waiting.Timer): "TIMER", int(waiting.Input): "INPUT",
			int(waiting.Event): "EVENT", int(waiting.Paused): "PAUSED", int(waiting.Delegation): "DELEGATION",
			int(waiting.Retry): "RETRY", int(waiting.Caller): "CALLER", int(waiting.Sidecar): "SIDECAR",
		}},
		{"UnfitCause", "UNFIT_CAUSE_", pawlv1.UnfitCause_name, []string{
			"UNSPECIFIED", int(dispatch.UnfitOtherPack): "OTHER_PACK", int(dispatch.UnfitNotServed): "NOT_SERVED",
			int(dispatch.UnfitNoCapacity): "NO_CAPACITY", int(dispatch.UnfitDraining): "DRAINING", int(dispatch.UnfitFull): "FULL",
			int(dispatch.UnfitNoCredit): "NO_CREDIT", int(dispatch.UnfitFree): "FREE",
		}},
		{"Awaiting", "AWAITING_", pawlv1.Awaiting_name, []string{
			int(machine.AwaitNothing): "UNSPECIFIED", int(machine.AwaitInput): "INPUT", int(machine.AwaitAuth): "AUTH",
		}},
	}
	for _, tt := range tests {
		named := 0
		for _, name := range tt.engine {
			if name != "" {
				named++
			}
		}
		if len(tt.wire) != named {
			t.Errorf("%s: %d values on the wire, %d in the engine", tt.name, len(tt.wire), named)
		}
		for i, want := range tt.engine {
			if got := strings.TrimPrefix(tt.wire[int32(i)], tt.prefix); got != want {
				t.Errorf("%s %d is %q on the wire, %q in the engine", tt.name, i, got, want)
			}
		}
	}
	if modeToProto(machine.Replace) != pawlv1.ArtifactMode_ARTIFACT_MODE_REPLACE || modeToProto(machine.Append) != pawlv1.ArtifactMode_ARTIFACT_MODE_APPEND {
		t.Error("artifact modes differ")
	}
}
