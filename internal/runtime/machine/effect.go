package machine

// Effect is the row of a business key. It names the step that has the key. In a namespace, a key
// belongs to one step over all runs, until it is certain that this step had no effect.
type Effect struct {
	Key   [32]byte
	RunID string
	Step  uint32
	// PayloadSeq is the record that contains the payload. AnswerSeq is the record with the successful answer; it is 0 if the step is pending
	// or its outcome is unknown.
	PayloadSeq, AnswerSeq uint64
}

// EffectOp is the kind of a change of an [Effect] row.
type EffectOp uint8

const (
	// EffectTaken means that the row is added. Before that, the row must be absent.
	EffectTaken EffectOp = iota + 1
	// EffectDone means that the answer of the step is added to its row.
	EffectDone
	// EffectFreed means that the row is removed, because the step had no effect.
	EffectFreed
)

// EffectChange is one change of a row by the step that owns it.
type EffectChange struct {
	Effect
	Op EffectOp
}

// DuplicateEffect is the code of the refusal of a second call with the same business key.
const DuplicateEffect = "DUPLICATE_EFFECT"

// StepRole is the reason why the sidecar itself requested a step.
type StepRole uint8

const (
	// RoleReconcile means that the step asks a tool whether an attempt of another step had its effect.
	RoleReconcile StepRole = iota + 1
	// RoleCompensate means that the step compensates the effect of another step.
	RoleCompensate
)

// About identifies the other step that a step of the sidecar refers to. It contains the number and the
// tool of that step, the record that requested it, and the record with its result. The latter is 0 if
// the result is unknown.
type About struct {
	Role                  StepRole
	Step                  uint32
	Tool                  string
	PayloadSeq, AnswerSeq uint64
}

// CompensableEffect is an effect of a run that can be undone.
type CompensableEffect struct {
	Step       uint32
	Tool       string
	PayloadSeq uint64
	// AnswerSeq is the record with the result of the step. It is 0 if it is unknown whether the effect
	// happened. Inquired reports whether the reconcile tool was called for it.
	AnswerSeq uint64
	Inquired  bool
	// Key is the business key of the step. It is zero if the step has none.
	Key [32]byte
}

// Undo is the phase in which the effects of a run are undone one after the other, beginning with the
// last effect. During this phase no turn is sent.
type Undo struct {
	// Status and Reason are the status and the reason with which the run ends after this phase. If
	// Status is StatusUnset, the run does not end. Then it follows Event to Intended, with the given
	// Cause.
	Status          Status
	Reason          string
	Event, Intended string
	Cause           Cause
	Redirects       []Redirect
	// Now is the effect that the step By is undoing. If By is 0, no effect is being undone.
	Now CompensableEffect
	By  uint32
	// Uncompensated are the effects that could not be undone.
	Uncompensated []UncompensatedEffect
}

// UncompensatedEffect is an effect that was not undone. By is the step that tried to undo it, and Code is the reason why it failed.
type UncompensatedEffect struct {
	Step uint32
	Tool string
	By   uint32
	Code string
}

// Fill is the payload of a step that the sidecar itself requests. The engine stamps it from records.
type Fill struct {
	Step    uint32
	Payload []byte
	// Hash is the hash of the payload, as in [StepRequest].
	Hash [32]byte
}

// MaxEffects bounds the effects of a run that can be undone.
const MaxEffects = 1000

// AwaitingAnswer reports whether the step needs an answer. This is the case if it is pending and no
// other step inquires about its outcome.
func (s *ToolStep) AwaitingAnswer() bool { return s.Status == StepStatusPending && s.Inquiry == 0 }

// Kinds of records about effects.
const (
	RecStepOutcomeUnknown  RecordKind = 40
	RecCompensationStarted RecordKind = 41
)

type (
	// StepOutcomeUnknown records that the outcome of the attempt is unknown, and that the step By inquires
	// about it.
	StepOutcomeUnknown struct {
		Step    uint32
		Tool    string
		Attempt int
		Error   Fault
		Worker  string
		By      uint32
		Kind    StepKind
	}
	// CompensationStarted records that the effects of the run are undone. Afterwards the run ends with
	// Status and Reason. If Status is StatusUnset, the run follows Event instead. The record is written
	// again if these values change.
	CompensationStarted struct {
		Status          Status
		Reason          string
		Event, Intended string
		Redirects       []Redirect
		// Effects are the steps to be undone, in the order in which they are undone. Pending are the steps that must end first.
		Effects, Pending []uint32
		Artifacts        []ArtifactWrite
	}
)

func (*StepOutcomeUnknown) record() RecordKind  { return RecStepOutcomeUnknown }
func (*CompensationStarted) record() RecordKind { return RecCompensationStarted }
