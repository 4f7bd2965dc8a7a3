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
