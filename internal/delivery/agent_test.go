package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/delivery"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// agent is the agent of a delegation. It keeps its tasks when the sidecar stops. It executes a repeated
// message once, unless repeats is set.
type agent struct {
	// play returns the task after the n-th message. n begins at 1.
	play func(n int, message machine.AgentMessage) machine.AgentTask
	// fault returns the error of a call before the call has any effect, lostAnswer the error after it had its
	// effect.
	fault, lostAnswer func(call string) error
	// unreachable returns an error if the agent cannot be found.
	unreachable func() error
	// repeats: the agent executes a repeated message again.
	repeats bool
	// unbound: the agent does not observe lists of tools.
	unbound bool

	mu      sync.Mutex
	tasks   map[string]*machine.AgentTask
	byID    map[string]string
	taken   []machine.AgentMessage
	changed chan struct{}
	ended   []string
	// walls has the wall times that came with each message, by the id of the message.
	walls map[string][]time.Duration
}

func newAgent(play func(int, machine.AgentMessage) machine.AgentTask) *agent {
	return &agent{
		play: play, tasks: make(map[string]*machine.AgentTask), byID: make(map[string]string), changed: make(chan struct{}),
		walls: make(map[string][]time.Duration),
		fault: func(string) error { return nil }, lostAnswer: func(string) error { return nil }, unreachable: func() error { return nil },
	}
}

var errUnreachable = &machine.AgentFault{Kind: machine.AgentUnreachable, Code: "AGENT_UNREACHABLE", Message: "no answer"}

// Peer implements delivery.Directory: every agent is this one.
func (a *agent) Peer(context.Context, *machine.Delegation) (delivery.Peer, string, error) {
	if err := a.unreachable(); err != nil {
		return nil, "", err
	}
	return a, "https://agent/card", nil
}

func (a *agent) Idempotent() bool { return !a.repeats }

func (a *agent) Bound() bool { return !a.unbound }

func (a *agent) Send(_ context.Context, from *machine.Delegation, m machine.AgentMessage) (machine.AgentTask, error) {
	a.mu.Lock()
	a.walls[m.ID] = append(a.walls[m.ID], from.WallTime)
	a.mu.Unlock()
	if err := a.fault("send"); err != nil {
		return machine.AgentTask{}, err
	}
	task := a.take(m)
	return task, a.lostAnswer("send")
}

func (a *agent) take(m machine.AgentMessage) machine.AgentTask {
	a.mu.Lock()
	defer a.mu.Unlock()
	id, known := a.byID[m.ID]
	if known && !a.repeats {
		return *a.tasks[id]
	}
	if id = m.TaskID; id == "" {
		id = fmt.Sprintf("task-%d", len(a.tasks)+1)
	}
	a.byID[m.ID] = id
	a.taken = append(a.taken, m)
	task := a.play(len(a.taken), m)
	if task.ID == "" {
		task.ID = id
	}
	a.put(id, task)
	return task
}

// put changes a task; a.mu must be held.
func (a *agent) put(id string, task machine.AgentTask) {
	a.tasks[id] = &task
	close(a.changed)
	a.changed = make(chan struct{})
}

// set changes a task from outside.
func (a *agent) set(id string, task machine.AgentTask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	task.ID = id
	a.put(id, task)
}

func (a *agent) Follow(ctx context.Context, id string, told func(machine.AgentTask) bool) error {
	for {
		if err := a.fault("follow"); err != nil {
			return err
		}
		a.mu.Lock()
		task, changed := a.tasks[id], a.changed
		a.mu.Unlock()
		if task == nil {
			return &machine.AgentFault{Kind: machine.AgentNoTask, Code: "TASK_NOT_FOUND"}
		}
		if !told(*task) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *agent) Get(_ context.Context, id string) (machine.AgentTask, error) {
	if err := a.fault("get"); err != nil {
		return machine.AgentTask{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if task := a.tasks[id]; task != nil {
		return *task, nil
	}
	return machine.AgentTask{}, &machine.AgentFault{Kind: machine.AgentNoTask, Code: "TASK_NOT_FOUND"}
}

func (a *agent) Cancel(_ context.Context, id string) error {
	if err := a.fault("cancel"); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = append(a.ended, id)
	a.put(id, machine.AgentTask{ID: id, State: machine.AgentCancelled})
	return nil
}

// messages returns the messages that the agent took, in order.
func (a *agent) messages() []machine.AgentMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]machine.AgentMessage(nil), a.taken...)
}

// await returns once ok returns true. It calls ok with the agent's lock held.
func (a *agent) await(ctx context.Context, ok func() bool) error {
	for {
		a.mu.Lock()
		done, changed := ok(), a.changed
		a.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(errors.New("the agent was not told"), ctx.Err())
		}
	}
}

func text(s string) []machine.Part { return []machine.Part{{Kind: machine.PartText, Text: s}} }

// doneOutcome completes every task with its message as output.
func doneOutcome(_ int, m machine.AgentMessage) machine.AgentTask {
	return machine.AgentTask{State: machine.AgentCompleted, Status: "COMPLETED", Reason: "completed", Output: m.Parts}
}
