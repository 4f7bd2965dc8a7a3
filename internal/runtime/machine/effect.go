package machine

// Effect is the row of a business key: the step that owns the effect. A key belongs to one step in a
// namespace, over all runs, until that step definitely had no effect.
type Effect struct {
	Key   [32]byte
	RunID string
	Step  uint32
	// PayloadSeq is the record that holds the payload, AnswerSeq the record with the successful answer; 0 =
	// there is none, because the step is pending or its outcome is unknown.
	PayloadSeq, AnswerSeq uint64
}

// EffectOp is the change of a row.
type EffectOp uint8

const (
	// EffectTaken: the row must be absent and is written.
	EffectTaken EffectOp = iota + 1
	// EffectDone: the row of the same step gets its answer.
	EffectDone
	// EffectFreed: the step had no effect, and the row is removed.
	EffectFreed
)

// EffectChange is one change of a row by the step that owns it.
type EffectChange struct {
	Effect
	Op EffectOp
}

// DuplicateEffect is the code of a refused second effect.
const DuplicateEffect = "DUPLICATE_EFFECT"

// StepRole is the reason for which the sidecar itself requested a step.
type StepRole uint8

const (
	// RoleReconcile asks whether an attempt of another step had its effect.
	RoleReconcile StepRole = iota + 1
	// RoleCompensate undoes the effect of another step.
	RoleCompensate
)

// About names the step that a step of the sidecar is about: its number and tool, the record that requested
// it, and the record that has its result; 0 = the result is unknown.
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
	// AnswerSeq is the record with its result; 0 = it is unknown whether it happened. Inquired reports
	// whether the reconcile tool was asked about it.
	AnswerSeq uint64
	Inquired  bool
	// Key is its business key; zero = none.
	Key [32]byte
}

// Undo is the phase in which a run's effects are undone, one after the other, the last one first. No turn is
// handed out meanwhile.
type Undo struct {
	// Status and Reason are those with which the run ends after it. With StatusUnset the run then follows
	// Event to Intended, with the given Cause.
	Status          Status
	Reason          string
	Event, Intended string
	Cause           Cause
	Redirects       []Redirect
	// Now is the effect that the step By is undoing; By 0 = none.
	Now CompensableEffect
	By  uint32
	// Uncompensated are the effects that could not be undone.
	Uncompensated []UncompensatedEffect
}

// UncompensatedEffect is an effect that was not undone: the step By should have undone it, and Code says why
// it did not.
type UncompensatedEffect struct {
	Step uint32
	Tool string
	By   uint32
	Code string
}

// Fill is the payload of a step of the sidecar's own. The host stamps it; it repeats data from records.
type Fill struct {
	Step    uint32
	Payload []byte
	// Hash is the payload hash, as in [StepRequest].
	Hash [32]byte
}

// MaxEffects bounds the effects of a run that can be undone.
const MaxEffects = 1000

// AwaitingAnswer reports whether the step still needs an answer: it is pending, and no inquiry about its
// outcome is under way.
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
	// CompensationStarted records that the run's effects are undone before it ends with Status and Reason,
	// or, with StatusUnset, before Event is followed. It is recorded again when that changes.
	CompensationStarted struct {
		Status          Status
		Reason          string
		Event, Intended string
		Redirects       []Redirect
		// Effects are the steps to be undone, in that order; Pending are the steps that must end before.
		Effects, Pending []uint32
		Artifacts        []ArtifactWrite
	}
)

func (*StepOutcomeUnknown) record() RecordKind  { return RecStepOutcomeUnknown }
func (*CompensationStarted) record() RecordKind { return RecCompensationStarted }
