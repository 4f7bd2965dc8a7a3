package main

import (
	"reflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These variables map messages of the schema to Go types. Fields are matched by name, and nested types
// are found through the fields that contain them. The generator stops if anything does not match.
var (
	// commands and bodies are the Go types of the members of the oneof fields Input.command and
	// Record.body. A type has the same name as its member.
	commands = []any{
		machine.Start{}, machine.EmitEvent{}, machine.SendInput{}, machine.SetArtifacts{}, machine.CompleteTurn{},
		machine.FailTurn{}, machine.SuspendTurn{}, machine.RequestSteps{}, machine.ResolveStep{}, machine.FireTimer{},
		machine.Pause{}, machine.Resume{}, machine.Cancel{}, machine.LoseTurn{}, machine.LoseStep{},
		machine.WriteOutput{}, machine.NoteDelegation{}, machine.Fork{},
		machine.RequestModel{}, machine.AnswerModel{}, machine.UpdateModelCall{},
		machine.RaiseBudget{},
		machine.Steer{}, machine.Stop{},
		machine.DecideStep{},
	}
	bodies = []any{
		machine.Transition{}, machine.InputReceived{}, machine.TurnOpened{}, machine.TurnAssigned{}, machine.TurnCompleted{},
		machine.TurnFailed{}, machine.TurnAbandoned{}, machine.TurnSuspended{}, machine.StepRequested{}, machine.StepResolved{},
		machine.StepRejected{}, machine.StepCancelled{}, machine.ArtifactsSet{}, machine.Paused{}, machine.Resumed{},
		machine.Origin{}, machine.Ended{}, machine.TurnReady{}, machine.OutputWritten{}, machine.StepDelegated{}, machine.NoChange{},
		machine.ModelUpdated{}, machine.StepOutcomeUnknown{}, machine.CompensationStarted{},
		machine.BudgetRaised{},
		machine.Steered{}, machine.Stopped{}, machine.NoticeAdded{},
		machine.StepDecided{}, machine.Evaluated{},
	}
	// rows are the messages that are stored as the whole value of a row, in the order of the generated
	// code.
	rows = []struct {
		message string
		of      any
	}{
		{"State", machine.State{}}, {"Dedupe", machine.Dedupe{}}, {"ArtifactVersion", machine.ArtifactVersion{}},
		{"PackBytes", machine.PackRow{}}, {"PackName", machine.PackRow{}}, {"StepHolder", machine.StepHolder{}},
		{"Blob", machine.Blob{}}, {"Upload", machine.Upload{}},
		{"Subscription", machine.Subscription{}}, {"DeadLetter", machine.DeadLetter{}},
		{"Deleted", machine.Deleted{}}, {"Erased", machine.Erased{}},
		{"Effect", machine.Effect{}}, {"Fill", machine.Fill{}},
		{"AccountRow", machine.AccountRow{}}, {"Bill", machine.Bill{}}, {"EvalResult", machine.EvalResult{}},
		{"ScheduleMark", machine.ScheduleMark{}},
	}
)

// lastEnumValues maps an enumeration type to the name of its last value. The decoder refuses larger numbers.
// For enumerations that are not listed, it accepts any number that fits the type.
var lastEnumValues = map[reflect.Type]string{
	reflect.TypeFor[machine.PartKind]():   "PartURI",
	reflect.TypeFor[machine.Execution]():  "Sidecar",
	reflect.TypeFor[machine.TimerKind]():  "TimerStep",
	reflect.TypeFor[machine.Cause]():      "CauseBudget",
	reflect.TypeFor[machine.Status]():     "Cancelled",
	reflect.TypeFor[machine.StepStatus](): "StepStatusCancelled",
	reflect.TypeFor[machine.Mode]():       "Append",
	reflect.TypeFor[machine.Awaiting]():   "AwaitAuth",
	reflect.TypeFor[machine.Sending]():    "SentNot",
	reflect.TypeFor[machine.Verdict]():    "Expired",
}

// compareFuncs maps the type of a field to the function that compares the field in a record with the same
// field in the input. It is used for fields that the schema also has as *_of_input.
var compareFuncs = map[reflect.Type]string{
	reflect.TypeFor[[]machine.ArtifactWrite]():    "sameWrites",
	reflect.TypeFor[[]machine.Part]():             "sameParts",
	reflect.TypeFor[[]machine.Message]():          "sameMessages",
	reflect.TypeFor[[]machine.ConversationCopy](): "sameConversations",
	reflect.TypeFor[[]machine.TakenStep]():        "sameTaken",
	reflect.TypeFor[machine.Fault]():              "sameFault",
	reflect.TypeFor[*machine.State]():             "sameState",
	reflect.TypeFor[*machine.ModelRequest]():      "sameModel",
	reflect.TypeFor[*machine.ModelAnswer]():       "sameAnswer",
	reflect.TypeFor[[]machine.EvalResult]():       "sameResults",
}

var (
	// alwaysWritten lists nested messages that are written even if they are empty.
	alwaysWritten = map[string]bool{"NoteDelegation.remote": true, "TurnAssigned.assigned": true}
	// queuedRefs maps a field that refers to a queued input of a fork to the field that is then not
	// stored. All other fields *_ref refer to a value of the entry's input.
	queuedRefs = map[string]string{"InputReceived.queued_ref": "parts"}
	// impliedFields maps a field to another field of its message. The field is omitted if it is equal to the
	// other field.
	impliedFields = map[string]string{"Transition.intended": "To"}
)

// unstoredFields lists fields that intentionally only the schema or only the Go type has, because the row's key
// contains them, because other rows or the entries give their values, or because no code reads them.
var unstoredFields = map[string]bool{
	"ArtifactWrite.Form": true, "ArtifactWrite.Type": true, // only checked, see machine.ArtifactWrite
	"Denial.trace": true, // a denial has no trace
	"Dedupe.Scope": true, "Dedupe.Kind": true, "Dedupe.Principal": true, "Dedupe.ID": true,
	"ArtifactVersion.Name": true,
	"State.Unlisted":       true,                       // found in the entries
	"State.Key":            true, "State.Erased": true, // known by the key slot and the row of the erasure
	"Erased.RunID":           true,
	"Effect.Key":             true,
	"ScheduleMark.Namespace": true, "ScheduleMark.ID": true,
	"AccountRow.Namespace": true, "AccountRow.Account": true,
	"PackBytes.Digest": true, "PackBytes.ID": true, "PackBytes.Version": true, "PackBytes.RegisteredAt": true, "PackBytes.Default": true,
	"PackName.Canonical": true, "PackName.Source": true, "PackName.Default": true,
	"Blob.SHA256":                  true,
	"Subscription.SubscriptionKey": true, "DeadLetter.N": true, "Deleted.RunID": true,
	// The schema stores only filters of streams. These fields exist only in filters of lists.
	"RunFilter.Reason": true, "RunFilter.CreatedFrom": true, "RunFilter.CreatedBefore": true, "RunFilter.IDPrefix": true, "RunFilter.Oldest": true,
}
