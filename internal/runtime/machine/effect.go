package machine

// Effect is the row of a business key: a key that is derived from the payload of a tool call, as the
// pack declares. In a namespace, a key belongs to one step over all runs, until it is certain that
// this step had no effect.
type Effect struct {
	Key   [32]byte
	RunID string
	Step  uint32
	// PayloadSeq is the record that contains the payload. AnswerSeq is the record with the successful answer; it is 0 if the step is pending
	// or its outcome is unknown.
	PayloadSeq, AnswerSeq uint64
}

// EffectOp is what an [EffectChange] does to the row of a business key.
type EffectOp uint8

const (
	// EffectTaken means that the row of the business key is added. Before that, the row must be
	// absent.
	EffectTaken EffectOp = iota + 1
	// EffectDone means that the answer of the step is added to the row of its business key.
	EffectDone
	// EffectFreed means that the row of the business key is removed, because the step had no
	// effect.
	EffectFreed
)

// EffectChange is one change of the row of a business key, made by the step that owns the key.
type EffectChange struct {
	Effect
	Op EffectOp
}

// DuplicateEffect is the error code of a call that is refused because another step has its business key, so that the
// effect would happen twice.
const DuplicateEffect = "DUPLICATE_EFFECT"

// StepRole is the reason why the sidecar itself requested a step.
type StepRole uint8

const (
	// RoleReconcile means that the step asks a tool whether an attempt of another step had its effect.
	RoleReconcile StepRole = iota + 1
	// RoleCompensate means that the step compensates the effect of another step.
	RoleCompensate
)

// About identifies the step that a step of the sidecar itself asks about or compensates. PayloadSeq is the record with the payload of the
// identified step: its request, or the decision that edited the payload. AnswerSeq is the record with its result, or with the answer of
// the reconcile tool about it. It is 0 if the result is unknown.
type About struct {
	Role                  StepRole
	Step                  uint32
	Tool                  string
	PayloadSeq, AnswerSeq uint64
}

// CompensableEffect is what a tool call has changed outside the sidecar and what a compensating tool can undo.
type CompensableEffect struct {
	Step       uint32
	Tool       string
	PayloadSeq uint64
	// AnswerSeq is the record with the result of the step. It is 0 if it is unknown whether the effect happened.
	// Inquired reports whether the reconcile tool was already asked about the effect.
	AnswerSeq uint64
	Inquired  bool
	// Key is the business key of the step. It is zero if the step has none.
	Key [32]byte
}

// Undo is the phase in which the effects of the run's tool calls are undone one after the other, the last effect first.
// During this phase no turn is executed.
type Undo struct {
	// Status and Reason are the status and the reason with which the run ends after this phase. If Status is
	// StatusUnset, the run does not end. Instead it follows Event to the state Intended, and the transition has the
	// given Cause.
	Status          Status
	Reason          string
	Event, Intended string
	Cause           Cause
	// ByAgent means that the executor of the turn emitted Event.
	ByAgent   bool
	Redirects []Redirect
	// Now is the effect that is being undone at the moment, by the step By. If By is 0, no effect is being undone.
	Now CompensableEffect
	By  uint32
	// Uncompensated are the effects of tool calls that could not be undone.
	Uncompensated []UncompensatedEffect
}

// UncompensatedEffect is an effect of a tool call that was not undone. By is the step that tried to undo it. Code is
// the error code of that step.
type UncompensatedEffect struct {
	Step uint32
	Tool string
	By   uint32
	Code string
}

// Fill is the payload of a step that the sidecar itself requests. The engine computes it from earlier records and
// stores it in the input.
type Fill struct {
	Step    uint32
	Payload []byte
	// Hash is the SHA-256 of the canonical payload, as in [StepRequest].
	Hash [32]byte
}

// MaxEffects is the largest number of effects that a run may have to undo.
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
	// StepOutcomeUnknown records that the outcome of an attempt is unknown, and that the step By asks the reconcile
	// tool about it.
	StepOutcomeUnknown struct {
		Step    uint32
		Tool    string
		Attempt int
		Error   Fault
		Worker  string
		By      uint32
		Kind    StepKind
	}
	// CompensationStarted records that the run begins to undo the effects of its tool calls. Afterwards it ends with
	// Status and Reason or, if Status is StatusUnset, follows Event. A second record is written if these values change.
	CompensationStarted struct {
		Status          Status
		Reason          string
		Event, Intended string
		Redirects       []Redirect
		// Effects are the numbers of the steps whose effects are undone, in the order of undoing. Pending are the numbers of
		// the steps that must end first.
		Effects, Pending []uint32
		Artifacts        []ArtifactWrite
	}
)

func (*StepOutcomeUnknown) record() RecordKind  { return RecStepOutcomeUnknown }
func (*CompensationStarted) record() RecordKind { return RecCompensationStarted }
