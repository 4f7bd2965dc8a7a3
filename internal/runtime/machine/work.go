package machine

// Package dispatch matches work with workers, and other packages send the work. Both use the types in this file.
// They are in package machine so that these packages need not import each other.

// WorkKind says whether a piece of work is a turn or a step.
type WorkKind uint8

const (
	// TurnWork is the open turn of a run.
	TurnWork WorkKind = iota + 1
	// StepWork is one pending step.
	StepWork
)

// WorkClass is a class of turns or steps that are alike for workers: a worker that can execute one of them can
// execute all of them.
type WorkClass struct {
	Kind WorkKind
	// Digest, PackID and PackVersion identify the pack of the run.
	Digest      string
	PackID      string
	PackVersion string
	// Prompt and Agent are set for a turn. Agent is "" if no agent executes the run.
	Prompt string
	Agent  string
	// Sidecar means that only the sidecar's own executor may get the turn or the step.
	Sidecar bool
	// Tool is the tool of a step.
	Tool string
}

// Work is one turn or step that is ready to be executed by a worker.
type Work struct {
	WorkClass
	RunID string
	// Turn is the seq of the turn. If the work is a step, it is the turn that requested the step.
	Turn uint64
	// Step is the number of the step. It is 0 if the work is a turn.
	Step uint32
	// Attempt is the attempt of the turn or step, from 1.
	Attempt int
	// Last is the number of the connected worker that last had work of the run. It is 0 if no connected worker had
	// any.
	Last uint64
}

// WorkID identifies a piece of ready work. Step is 0 for the turn of the run, because a run has at most one open
// turn.
type WorkID struct {
	RunID string
	Step  uint32
}

// ID returns the work's id.
func (w *Work) ID() WorkID { return WorkID{RunID: w.RunID, Step: w.Step} }

// StepHolder is the worker to which an attempt of a step was sent. It is zero if there is none. If Worker is ""
// but Principal is set, the caller makes the call itself: the answer to its request contained the call.
type StepHolder struct {
	Principal, Worker string
	// Instance is the name that the worker chose for its process. It is "" if the worker sent none.
	Instance string
	// Delivery is the number of this delivery among all deliveries to the worker's process. It is 0 if deliveries
	// are not counted.
	Delivery uint64
}

// WorkOffer describes the work that one worker offers to execute.
type WorkOffer struct {
	// Packs are the ids, id@version or digests of the packs that the worker serves. If it is empty, the worker
	// serves every pack.
	Packs []string
	// Prompts, Agents and Tools are the names of what the worker executes: turns of the prompts and agents, and
	// steps of the tools. "*" means all names.
	Prompts []string
	Agents  []string
	Tools   []string
	// Sidecar means that the worker is part of the sidecar itself. It receives only turns with the
	// execution [Sidecar], and only steps of tools that the sidecar executes.
	Sidecar bool
	// Turns and Steps bound the turns and steps that the worker has at once. The credits of the worker (its
	// announced free capacity) bound them, too.
	Turns int
	Steps int
}

// Serves reports whether the worker can execute work of the class c: the pack, the prompt, agent or tool, and the kind
// of executor must match its offer.
func (o *WorkOffer) Serves(c *WorkClass) bool {
	if !o.ServesPack(c) {
		return false
	}
	if c.Kind == StepWork {
		return o.Steps > 0 && o.Sidecar == c.Sidecar && hasName(o.Tools, c.Tool)
	}
	return o.Turns > 0 && o.Sidecar == c.Sidecar && (hasName(o.Prompts, c.Prompt) || c.Agent != "" && hasName(o.Agents, c.Agent))
}

// ServesPack reports whether the worker executes work of the pack to which the class c belongs.
func (o *WorkOffer) ServesPack(c *WorkClass) bool {
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

func hasName(names []string, name string) bool {
	for _, n := range names {
		if n == name || n == "*" {
			return true
		}
	}
	return false
}
