package machine

// Effect is the row of a business key: the step that has the effect. A key has one step in
// a namespace, over all runs, until that step definitely did nothing.
type Effect struct {
	Key   [32]byte
	RunID string
	Step  uint32
	// Asked is the record that holds the payload, Answer the one with the good answer; 0 =
	// there is none: the step is pending, or nobody knows what came of it.
	Asked, Answer uint64
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
	Role            StepRole
	Step            uint32
	Tool            string
	Asked, Answered uint64
}

// Standing is an effect that a run had and that can be undone.
type Standing struct {
	Step  uint32
	Tool  string
	Asked uint64
	// Answered is the record with its result, 0 = nobody knows whether it happened;
	// Inquired: and who could know was asked.
	Answered uint64
	Inquired bool
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
	Now Standing
	By  uint32
	// Stands are those that could not be undone.
	Stands []Stood
}

// Stood is an effect that stands: by the step By it was to be undone, and Code is why it was
// not.
type Stood struct {
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

// Out reports whether the step is one that somebody is to answer: it is pending, and nobody
// is asked whether it happened.
func (s *ToolStep) Out() bool { return s.Status == StepStatusPending && s.Inquiry == 0 }

// Records of effects.
const (
	RecStepDoubted       RecordKind = 40
	RecCompensationBegun RecordKind = 41
)

type (
	// StepDoubted: nobody knows what came of the attempt, and the step By asks.
	StepDoubted struct {
		Step    uint32
		Tool    string
		Attempt int
		Error   Fault
		Worker  string
		By      uint32
		Kind    StepKind
	}
	// CompensationBegun: the run's effects are undone before it ends as Status and Reason
	// say, or, with StatusUnset, before Event is followed. Recorded again when that changes.
	CompensationBegun struct {
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

func (*StepDoubted) record() RecordKind       { return RecStepDoubted }
func (*CompensationBegun) record() RecordKind { return RecCompensationBegun }
