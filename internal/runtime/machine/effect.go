package machine

// Effect is the row of a business key: the step that has the effect. A key has one step in
// a namespace, over all runs, until that step definitely did nothing.
type Effect struct {
	Key   [32]byte
	RunID string
	Step  uint32
	// PayloadSeq is the record that holds the payload, Answer the one with the good answer; 0 =
	// there is none: the step is pending, or nobody knows what came of it.
	PayloadSeq, AnswerSeq uint64
}

// EffectOp says what becomes of a row.
type EffectOp uint8

const (
	// EffectTaken: the row must be absent and is set.
	EffectTaken EffectOp = iota + 1
	// EffectDone: the row of the same step gets its answer.
	EffectDone
	// EffectFreed: the step did nothing, and the row goes.
	EffectFreed
)

// EffectChange is one change of a row by the step that has it.
type EffectChange struct {
	Effect
	Op EffectOp
}

// DuplicateEffect is the code of a refused second effect.
const DuplicateEffect = "DUPLICATE_EFFECT"

// StepRole says why the sidecar itself asked for a step.
type StepRole uint8

const (
	// RoleReconcile asks whether an attempt of another step had its effect.
	RoleReconcile StepRole = iota + 1
	// RoleCompensate undoes the effect of another step.
	RoleCompensate
)

// About is what a step of the sidecar's own is about: the step with its tool, the record that
// asked for it, and the record that has its result, 0 = nobody knows it.
type About struct {
	Role                  StepRole
	Step                  uint32
	Tool                  string
	PayloadSeq, AnswerSeq uint64
}

// CompensableEffect is an effect that a run had and that can be undone.
type CompensableEffect struct {
	Step       uint32
	Tool       string
	PayloadSeq uint64
	// AnswerSeq is the record with its result, 0 = nobody knows whether it happened;
	// Inquired: and who could know was asked.
	AnswerSeq uint64
	Inquired  bool
	// Key is its business key, zero = none.
	Key [32]byte
}

// Undo is the phase in which a run's effects are undone, one after the other, the last one
// first. No turn is handed out meanwhile.
type Undo struct {
	// Status and Reason are how the run ends then; StatusUnset: it follows Event to
	// Intended, because of Cause.
	Status          Status
	Reason          string
	Event, Intended string
	Cause           Cause
	Redirects       []Redirect
	// Now is the effect that is being undone by the step By; By 0 = none.
	Now CompensableEffect
	By  uint32
	// Uncompensated are those that could not be undone.
	Uncompensated []UncompensatedEffect
}

// UncompensatedEffect is an effect that stands: by the step By it was to be undone, and Code is why it was
// not.
type UncompensatedEffect struct {
	Step uint32
	Tool string
	By   uint32
	Code string
}

// Fill is the payload of a step of the sidecar's own, stamped by the host: it repeats what
// stands in records.
type Fill struct {
	Step    uint32
	Payload []byte
	// Hash is that of [StepRequest].
	Hash [32]byte
}

// MaxEffects bounds the effects of a run that can be undone.
const MaxEffects = 1000

// AwaitingAnswer reports whether the step is one that somebody is to answer: it is pending, and nobody
// is asked whether it happened.
func (s *ToolStep) AwaitingAnswer() bool { return s.Status == StepStatusPending && s.Inquiry == 0 }

// Records of effects.
const (
	RecStepOutcomeUnknown  RecordKind = 40
	RecCompensationStarted RecordKind = 41
)

type (
	// StepOutcomeUnknown: nobody knows what came of the attempt, and the step By asks.
	StepOutcomeUnknown struct {
		Step    uint32
		Tool    string
		Attempt int
		Error   Fault
		Worker  string
		By      uint32
		Kind    StepKind
	}
	// CompensationStarted: the run's effects are undone before it ends as Status and Reason
	// say, or, with StatusUnset, before Event is followed. Recorded again when that changes.
	CompensationStarted struct {
		Status          Status
		Reason          string
		Event, Intended string
		Redirects       []Redirect
		// Effects are the steps that are undone, in that order; Pending those that are
		// waited for before.
		Effects, Pending []uint32
		Artifacts        []ArtifactWrite
	}
)

func (*StepOutcomeUnknown) record() RecordKind  { return RecStepOutcomeUnknown }
func (*CompensationStarted) record() RecordKind { return RecCompensationStarted }
