package main

import (
	"reflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These variables map messages to Go types. Fields are matched by name, and nested types are found
// through the fields that contain them. The generator stops if anything does not match.
var (
	// commands and bodies are the Go types of the members of Input.command and Record.body. The types
	// have the same names as the members.
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
		machine.StepDecided{},
	}
	// rows are the messages that are stored as whole values. They are in the order of the generated
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
		{"AccountRow", machine.AccountRow{}}, {"Bill", machine.Bill{}},
		{"ScheduleMark", machine.ScheduleMark{}},
	}
)

// closed maps an enumeration type to the name of its last value. A larger number is invalid. For other
// types, any number that fits the type is valid.
var closed = map[reflect.Type]string{
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

// sames maps a type to the function that compares a field of a record with the field of the input. It
// is used for the fields for which the schema has a field *_of_input.
var sames = map[reflect.Type]string{
	reflect.TypeFor[[]machine.ArtifactWrite]():    "sameWrites",
	reflect.TypeFor[[]machine.Part]():             "sameParts",
	reflect.TypeFor[[]machine.Message]():          "sameMessages",
	reflect.TypeFor[[]machine.ConversationCopy](): "sameConversations",
	reflect.TypeFor[[]machine.TakenStep]():        "sameTaken",
	reflect.TypeFor[machine.Fault]():              "sameFault",
	reflect.TypeFor[*machine.State]():             "sameState",
	reflect.TypeFor[*machine.ModelRequest]():      "sameModel",
	reflect.TypeFor[*machine.ModelAnswer]():       "sameAnswer",
}

var (
	// always lists nested messages that are written even if they are empty.
	always = map[string]bool{"NoteDelegation.remote": true, "TurnAssigned.assigned": true}
	// queuedRefs maps the references to a fork's queued inputs to the fields that they replace. Every
	// other field *_ref refers to a body of the input.
	queuedRefs = map[string]string{"InputReceived.queued_ref": "parts"}
	// implied maps a field to another field. The field is omitted if it is equal to the other field.
	implied = map[string]string{"Transition.intended": "To"}
)

// unstored lists fields that intentionally only the schema or only the Go type has. They are part of
// the row's key, or no code reads them.
var unstored = map[string]bool{
	"ArtifactWrite.Form": true, "ArtifactWrite.Type": true, // a claim, judged before it is stored
	"Denial.trace": true, // a refusal is the host's own
	"Dedupe.Scope": true, "Dedupe.Kind": true, "Dedupe.Principal": true, "Dedupe.ID": true,
	"ArtifactVersion.Name": true,
	"State.Unlisted":       true,                       // found in the entries
	"State.Key":            true, "State.Erased": true, // known by the row
	"Erased.RunID":           true,
	"Effect.Key":             true,
	"ScheduleMark.Namespace": true, "ScheduleMark.ID": true,
	"AccountRow.Namespace": true, "AccountRow.Account": true,
	"PackBytes.Digest": true, "PackBytes.ID": true, "PackBytes.Version": true, "PackBytes.RegisteredAt": true, "PackBytes.Default": true,
	"PackName.Canonical": true, "PackName.Source": true, "PackName.Default": true,
	"Blob.SHA256":                  true,
	"Subscription.SubscriptionKey": true, "DeadLetter.N": true, "Deleted.RunID": true,
	// The filter of a stream has fewer fields than the filter of a list.
	"RunFilter.Reason": true, "RunFilter.CreatedFrom": true, "RunFilter.CreatedBefore": true, "RunFilter.IDPrefix": true, "RunFilter.Oldest": true,
}
