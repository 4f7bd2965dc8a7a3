package machine

// The types in this file are shared by the code that sends work and the code that matches work with
// workers. store.go explains why they are in this package.

// WorkKind is a turn or a step.
type WorkKind uint8

const (
	// TurnWork is the open turn of a run.
	TurnWork WorkKind = iota + 1
	// StepWork is one pending step.
	StepWork
)

// WorkClass is the kind of work that a worker must be able to execute. All work of one class is equal for a worker.
type WorkClass struct {
	Kind WorkKind
	// Digest, PackID and PackVersion identify the pack of the run.
	Digest      string
	PackID      string
	PackVersion string
	// Prompt and Agent are set for a turn. Agent is "" if no agent executes the run.
	Prompt string
	Agent  string
	// Sidecar means that only the sidecar's own executor may get the turn.
	Sidecar bool
	// Tool is the tool of a step.
	Tool string
}

// Work is one piece of work that is ready.
type Work struct {
	WorkClass
	RunID string
	// Turn is the seq of the turn. For a step it is the turn that requested the step.
	Turn uint64
	// Step is 0 for a turn.
	Step uint32
	// Attempt is the attempt of the turn or step, from 1.
	Attempt int
	// Last is the number of the worker that last had work of the run. 0 = no connected worker had any.
	Last uint64
}

// WorkID identifies a piece of ready work. A run has at most one open turn and any number of steps.
type WorkID struct {
	RunID string
	Step  uint32
}

// ID returns the work's id.
func (w *Work) ID() WorkID { return WorkID{RunID: w.RunID, Step: w.Step} }

// StepHolder is the worker to which an attempt of a step was sent. It is zero if there is none. If
// Worker is "", the holder is the caller that received the call in the answer to its request. This
// happens for an approved call, and for a further attempt of a call that the caller makes itself
// (ByCaller).
type StepHolder struct {
	Principal, Worker string
	// Instance is the name that the worker chose for its process. It is "" if the worker sent none.
	Instance string
	// Delivery is the number of the delivery among all deliveries to the instance. It is 0 if
	// deliveries are not counted.
	Delivery uint64
}

// WorkOffer describes the work that one worker executes.
type WorkOffer struct {
	// Packs are ids, id@version or digests of packs. If it is empty, the offer is for every pack.
	Packs []string
	// Prompts, Agents and Tools are the names whose turns and steps the worker executes. "*" means all
	// names.
	Prompts []string
	Agents  []string
	Tools   []string
	// Sidecar means that the worker is the sidecar's own executor. It receives only turns with the
	// execution [Sidecar].
	Sidecar bool
	// Turns and Steps bound the work that the worker holds at once, regardless of its credits.
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
