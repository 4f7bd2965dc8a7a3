package machine

// The types shared by the code that hands out work and the code that matches it with workers. They are in
// this package for the reason given in store.go.

// WorkKind is a turn or a step.
type WorkKind uint8

const (
	// TurnWork is the open turn of a run.
	TurnWork WorkKind = iota + 1
	// StepWork is one pending step.
	StepWork
)

// WorkClass is what a worker must be able to do for a piece of work. All work of one class is equal for a
// worker.
type WorkClass struct {
	Kind WorkKind
	// Digest, PackID and PackVersion are the pack of the run.
	Digest      string
	PackID      string
	PackVersion string
	// Prompt and Agent of a turn; Agent is "" unless the run is an agent's.
	Prompt string
	Agent  string
	// Sidecar means that only the sidecar's own executor may get the turn.
	Sidecar bool
	// Tool of a step.
	Tool string
}

// Work is one piece of work that is ready.
type Work struct {
	WorkClass
	RunID string
	// Turn is the seq of the turn; for a step, of the turn that requested it.
	Turn uint64
	// Step is 0 for a turn.
	Step uint32
	// Attempt of the turn or of the step, from 1.
	Attempt int
	// Last is the worker that had the run before; 0 = none, or it is gone.
	Last uint64
}

// WorkID identifies a piece of ready work: a run has one open turn and any number of steps.
type WorkID struct {
	RunID string
	Step  uint32
}

// ID returns the work's id.
func (w *Work) ID() WorkID { return WorkID{RunID: w.RunID, Step: w.Step} }

// StepHolder is the worker that an attempt of a step was sent to; zero = none. Without a Worker it is the
// caller that received the call in the answer to its request: an approved call, or a further attempt of a
// call that the caller makes itself (ByCaller).
type StepHolder struct {
	Principal, Worker string
	// Instance is the worker's name for its process; "" = it gave none.
	Instance string
	// Delivery is the number of the delivery among those to the instance; 0 = not counted.
	Delivery uint64
}

// WorkOffer is the set of work that one worker executes.
type WorkOffer struct {
	// Packs are ids, id@version or digests; empty = every pack.
	Packs []string
	// Prompts, Agents and Tools name the turns and steps that it executes; "*" is all of them.
	Prompts []string
	Agents  []string
	Tools   []string
	// Sidecar marks the sidecar's own executor, which gets only turns with the execution [Sidecar].
	Sidecar bool
	// Turns and Steps bound the work that it holds at once, regardless of its credits.
	Turns int
	Steps int
}

// Serves reports whether the offer covers work of a class.
func (o *WorkOffer) Serves(c *WorkClass) bool {
	if !o.servesPack(c) {
		return false
	}
	if c.Kind == StepWork {
		return o.Steps > 0 && named(o.Tools, c.Tool)
	}
	return o.Turns > 0 && o.Sidecar == c.Sidecar && (named(o.Prompts, c.Prompt) || c.Agent != "" && named(o.Agents, c.Agent))
}

func (o *WorkOffer) servesPack(c *WorkClass) bool {
	if len(o.Packs) == 0 {
		return true
	}
	for _, ref := range o.Packs {
		if ref == c.PackID || ref == c.Digest || ref == c.PackID+"@"+c.PackVersion {
			return true
		}
	}
	return false
}

func named(names []string, name string) bool {
	for _, n := range names {
		if n == name || n == "*" {
			return true
		}
	}
	return false
}
