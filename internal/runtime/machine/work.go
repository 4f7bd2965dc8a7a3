package machine

// The vocabulary between whoever hands out work and whoever decides who gets
// it. It stands here for the reason that port.go gives.

// WorkKind is a turn or a step.
type WorkKind uint8

const (
	// TurnWork is the open turn of a run.
	TurnWork WorkKind = iota + 1
	// StepWork is one pending step.
	StepWork
)

// WorkClass is what a worker must be able to do for a piece of work. Work of one
// class is alike to every worker.
type WorkClass struct {
	Kind WorkKind
	// Digest, PackID and PackVersion are the pack of the run.
	Digest      string
	PackID      string
	PackVersion string
	// Prompt and Agent of a turn; Agent is "" unless the run is an agent's.
	Prompt string
	Agent  string
	// Sidecar: a turn that only the sidecar's own executor is given.
	Sidecar bool
	// Tool of a step.
	Tool string
}

// Work is one piece of work that is ready.
type Work struct {
	WorkClass
	RunID string
	// Turn is the seq of the turn (of a step: of the turn that asked for it).
	Turn uint64
	// Step is 0 for a turn.
	Step uint32
	// Attempt of the turn or of the step, from 1.
	Attempt int
	// Last is the worker that had the run before; 0 = none, or it is gone.
	Last uint64
}

// WorkID names a piece of work among those that are ready: a run has one open
// turn, and any number of steps.
type WorkID struct {
	RunID string
	Step  uint32
}

// ID is the work's place among those that are ready.
func (w *Work) ID() WorkID { return WorkID{RunID: w.RunID, Step: w.Step} }

// StepHolder is the worker that an attempt of a step was sent to; zero: it was sent to none.
// Without a Worker it is the caller that was given the call by an answer to its request: a call
// that was approved, or a further attempt of one that the caller makes (ByCaller).
type StepHolder struct {
	Principal, Worker string
	// Instance is the worker's process, as it names it; "" = it does not.
	Instance string
	// Delivery is the number of the delivery among those to the instance; 0 = it was not counted.
	Delivery uint64
}

// WorkOffer is what one worker executes.
type WorkOffer struct {
	// Packs are ids, id@version or digests; empty = every pack.
	Packs []string
	// Prompts and Agents whose turns, and Tools whose steps it executes; "*" is
	// all of them.
	Prompts []string
	Agents  []string
	Tools   []string
	// Sidecar: it is the sidecar's own executor, which is given nothing else than turns of
	// the execution [Sidecar].
	Sidecar bool
	// Turns and Steps bound what it holds at once, whatever its credits.
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
