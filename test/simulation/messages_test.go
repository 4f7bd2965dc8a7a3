//go:build sim

package simulation

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// messages are what people send to the agents of a store through any member of a cluster, over gRPC.
// The mutex of visits protects them.
type messages struct {
	// keyed are the messages with a key, which are sent again through other members.
	keyed []*message
	// tasks are the tasks that answers named.
	tasks []task
	// `told` is the newest generation of each task that a client has received.
	told map[string]uint64
	// refused are the texts of messages that were refused, with the reason.
	refused map[string]string
}

// task is a task and its agent.
type task struct{ agent, id string }

// message is a message to a task. Without an id it starts a new task.
type message struct {
	task
	text string
	// key is the idempotency key. Repeats with it return the same task. "" means that the message is
	// accepted at most once.
	key string
	// first is the task of its first answer.
	first string
}

// writers are the ways to send a message. They differ in what the sender waits for.
var writers = []func(n *node, m *member, msg *message){
	func(n *node, m *member, msg *message) { n.send(m, msg, false) },
	func(n *node, m *member, msg *message) { n.send(m, msg, true) },
	(*node).stream,
}

// writes sends a message to an agent through a member, or reads what happened to an earlier message.
func (n *node) writes(m *member, dice *rand.Rand) {
	id, to, old := n.visits.id(), n.visits.task(dice), n.visits.keyed(dice)
	write := writers[dice.IntN(len(writers))]
	// Only approvers move the third agent.
	begins := task{agent: pick(dice, "lead", "helper", "helper")}
	switch what := dice.IntN(16); {
	case to.id == "" || what < 4:
		write(n, m, &message{task: begins, text: nameless + id})
	case what < 6:
		n.key(m, &message{task: begins, text: id, key: id}, write)
	case what < 9 && to.agent == "helper": // tasks of the other agent may wait for a decision of approvers
		write(n, m, &message{task: to, text: nameless + id})
	case what == 9 && to.agent == "helper":
		n.key(m, &message{task: to, text: id, key: id}, write)
	case what < 12 && old != nil:
		write(n, m, old)
	case what == 12:
		n.subscribe(m, to)
	case what == 13:
		n.cancelTask(m, to)
	default:
		n.getTask(m, to)
	}
}

// task returns one of the newest tasks. A task without an id means that there is none.
func (v *visits) task(dice *rand.Rand) task {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.messages.tasks) == 0 {
		return task{}
	}
	return v.messages.tasks[max(0, len(v.messages.tasks)-1-dice.IntN(4))]
}

// keyed returns one of the newest messages with a key, or nil if there is none.
func (v *visits) keyed(dice *rand.Rand) *message {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.messages.keyed) == 0 {
		return nil
	}
	return v.messages.keyed[max(0, len(v.messages.keyed)-1-dice.IntN(6))]
}

// key sends a message that may be sent again.
func (n *node) key(m *member, msg *message, write func(*node, *member, *message)) {
	n.visits.mu.Lock()
	n.visits.messages.keyed = append(n.visits.messages.keyed, msg)
	n.visits.mu.Unlock()
	write(n, m, msg)
}

// tenant returns the tenant that names the agent of a task in the node's namespace.
func (n *node) tenant(t task) string {
	if n.space == "" {
		return "sim/" + t.agent
	}
	return n.space + ":sim/" + t.agent
}

func (n *node) request(msg *message, atOnce bool) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{
		Tenant: n.tenant(msg.task), Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: atOnce},
		Message: &a2apb.Message{
			MessageId: msg.text, TaskId: msg.id, Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: msg.text}}},
		},
	}
}

// speaks returns the context of a call of a client of agents, with the key of the message if it has one.
func speaks(ctx context.Context, key string) context.Context {
	ctx = metadata.AppendToOutgoingContext(ctx, "a2a-version", protocol.ProtocolVersion)
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	return ctx
}

// send sends a message, and waits until the agent needs an input or has ended. With atOnce, it does not wait.
func (n *node) send(m *member, msg *message, atOnce bool) {
	n.reach(m, "message "+msg.text, func(ctx context.Context) error {
		got, err := a2apb.NewA2AServiceClient(m.calls).SendMessage(speaks(ctx, msg.key), n.request(msg, atOnce))
		if err != nil {
			n.refused(msg, err)
			return err
		}
		if t := got.GetTask(); t != nil {
			n.has(m, msg, t)
		}
		return nil
	})
}

// refused records that a message was refused. Its sender may send it again.
func (n *node) refused(msg *message, err error) {
	if reason := reasonOfStatus(err); msg.key == "" && (reason == "DRAINING" || reason == "NO_OWNER") {
		n.visits.mu.Lock()
		n.visits.messages.refused[msg.text] = reason
		n.visits.mu.Unlock()
	}
}

// has records the task of a message.
func (n *node) has(m *member, msg *message, t *a2apb.Task) {
	v := n.visits
	v.mu.Lock()
	fresh := msg.first == ""
	if fresh {
		msg.first = t.GetId()
	}
	first := msg.first
	if of := (task{msg.agent, t.GetId()}); fresh && !slices.Contains(v.messages.tasks, of) {
		v.messages.tasks = append(v.messages.tasks, of)
		v.runs = append(v.runs, of.id)
		n.world.people.runs[n] = append(n.world.people.runs[n], of.id)
	}
	v.mu.Unlock()
	if first != t.GetId() && !n.world.oracle(n).deleting[first] {
		n.world.fail("an id has one answer", "message %s at %s is of task %s, and of %s", msg.text, m.name, first, t.GetId())
	}
	if msg.id != "" && msg.id != t.GetId() {
		n.world.fail("a message is of its task", "message %s to task %s at %s is answered with %s", msg.text, msg.id, m.name, t.GetId())
	}
	n.told(t.GetId(), generationOf(t.GetMetadata().AsMap()))
}

// generationOf returns the generation in the metadata of a task or of an event of a task.
func generationOf(metadata map[string]any) uint64 {
	generation, _ := metadata["pawl.dev/generation"].(float64)
	return uint64(generation)
}

// `told` records the newest generation of a task that a client has received.
func (n *node) told(id string, generation uint64) {
	n.learn(id, generation)
	n.visits.mu.Lock()
	defer n.visits.mu.Unlock()
	n.visits.messages.told[id] = max(n.visits.messages.told[id], generation)
}

// stream sends a message and reads the events of its task.
func (n *node) stream(m *member, msg *message) {
	n.reach(m, "streaming message "+msg.text, func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := a2apb.NewA2AServiceClient(m.calls).SendStreamingMessage(speaks(ctx, msg.key), n.request(msg, false))
		if err != nil {
			return err
		}
		h := hearing{node: n, m: m, msg: msg}
		err = h.events(stream.Recv)
		if !h.begun {
			n.refused(msg, err)
		}
		return err
	})
}

// subscribe reads the events of a task for a while.
func (n *node) subscribe(m *member, t task) {
	n.reach(m, "subscription to "+short(t.id), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		stream, err := a2apb.NewA2AServiceClient(m.calls).SubscribeToTask(speaks(ctx, ""), &a2apb.SubscribeToTaskRequest{Tenant: n.tenant(t), Id: t.id})
		if err != nil {
			return err
		}
		return (&hearing{node: n, m: m, msg: &message{task: t, text: "of a subscription"}}).events(stream.Recv)
	})
}

// hearing is a stream of events of one task.
type hearing struct {
	node *node
	m    *member
	msg  *message
	// begun means that the stream has sent the task, or a message in place of the task.
	begun bool
	at    uint64
	state a2apb.TaskState
}

// events reads a stream to its end. The stream may end only when the agent has ended or needs an input.
func (h *hearing) events(next func() (*a2apb.StreamResponse, error)) error {
	for {
		in, err := next()
		if errors.Is(err, io.EOF) {
			if !h.rests() {
				h.node.world.fail("a stream of a task ends where it rests", "message %s at %s: it ends in %v, begun %v", h.msg.text, h.m.name, h.state, h.begun)
			}
			return nil
		}
		if err != nil {
			return err
		}
		h.hears(in)
	}
}

// rests reports whether no event follows without an input.
func (h *hearing) rests() bool {
	switch h.state {
	case a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_FAILED, a2apb.TaskState_TASK_STATE_CANCELED,
		a2apb.TaskState_TASK_STATE_REJECTED, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED:
		return true
	}
	return false
}

func (h *hearing) hears(in *a2apb.StreamResponse) {
	switch p := in.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		if h.begun {
			h.node.world.fail("a stream tells its task once", "message %s at %s", h.msg.text, h.m.name)
		}
		h.node.has(h.m, h.msg, p.Task)
		h.state = p.Task.GetStatus().GetState()
		h.goesOn(p.Task.GetId(), p.Task.GetMetadata().AsMap())
	case *a2apb.StreamResponse_StatusUpdate:
		h.state = p.StatusUpdate.GetStatus().GetState()
		h.goesOn(p.StatusUpdate.GetTaskId(), p.StatusUpdate.GetMetadata().AsMap())
	case *a2apb.StreamResponse_ArtifactUpdate:
		h.goesOn(p.ArtifactUpdate.GetTaskId(), p.ArtifactUpdate.GetMetadata().AsMap())
	case *a2apb.StreamResponse_Message:
		h.state = a2apb.TaskState_TASK_STATE_COMPLETED
	}
	h.begun = true
}

// goesOn checks that an event is not older than an earlier one.
func (h *hearing) goesOn(id string, metadata map[string]any) {
	generation := generationOf(metadata)
	if generation < h.at {
		h.node.world.fail("a stream never goes back", "message %s at %s: generation %d of %s behind %d", h.msg.text, h.m.name, generation, id, h.at)
	}
	h.at = generation
	h.node.told(id, generation)
}

// getTask reads a task, and checks that the answer is not older than any answer before the call.
func (n *node) getTask(m *member, t task) {
	n.visits.mu.Lock()
	floor := n.visits.messages.told[t.id]
	n.visits.mu.Unlock()
	n.reach(m, "task "+short(t.id), func(ctx context.Context) error {
		got, err := a2apb.NewA2AServiceClient(m.calls).GetTask(speaks(ctx, ""), &a2apb.GetTaskRequest{Tenant: n.tenant(t), Id: t.id})
		if err != nil {
			return err
		}
		generation := generationOf(got.GetMetadata().AsMap())
		if generation < floor {
			n.world.fail("nobody reads what is past", "%s shows task %s at %d, and somebody was told of %d", m.name, t.id, generation, floor)
		}
		n.told(t.id, generation)
		return nil
	})
}

// cancelTask asks for the end of a task.
func (n *node) cancelTask(m *member, t task) {
	n.reach(m, "cancel of task "+short(t.id), func(ctx context.Context) error {
		_, err := a2apb.NewA2AServiceClient(m.calls).CancelTask(speaks(ctx, ""), &a2apb.CancelTaskRequest{Tenant: n.tenant(t), Id: t.id})
		return err
	})
}

// saidIn returns the text of a message or an input without an id. It returns "" for any other command.
func saidIn(command machine.Command) string {
	var parts []machine.Part
	switch c := command.(type) {
	case machine.SendInput:
		parts = c.Parts
	case machine.Start:
		parts = c.Input
	}
	if len(parts) != 1 || !strings.HasPrefix(parts[0].Text, nameless) {
		return ""
	}
	return parts[0].Text
}

// judgeMessages checks that a refused message is in no run.
func (n *node) judgeMessages(taken map[string]place) {
	for text, reason := range n.visits.messages.refused {
		if at, found := taken[text]; found {
			n.world.fail("what was refused was not done", "%s was answered with %s and is in record %d of %s", text, reason, at.seq, at.run)
		}
	}
}

// withMessages adds messages to a cluster's agents to a plan. It uses a separate random generator, so
// that the rest of the plan stays the same.
func withMessages(actions []action, seed uint64, calm bool) []action {
	at, members := clustered(seed)
	if members == 0 {
		return actions
	}
	kinds := []chance{{"message", 3, false}, {"leave under a message", 1, false}, {"kill under a message", 1, true}}
	if warded(seed) != nil {
		kinds = append(kinds, chance{"message in ward", 3, false})
	}
	dice := rand.New(rand.NewPCG(seed, 0xa2a))
	return mixed(actions, oneIn(dice, 6), func() action {
		b := newAction(dice, calm)
		b.node, b.kind = at, pickKind(dice, calm, kinds, "message")
		return b
	})
}

// corresponds executes an action about messages. It returns false if the action is not about messages.
func (c *cluster) corresponds(k kind, m *member, dice *rand.Rand) bool {
	switch k {
	case "message":
		c.node.writes(m, dice)
	case "message in ward":
		c.wards[dice.IntN(len(c.wards))].writes(m, dice)
	case "leave under a message":
		c.under(dice, func(owner *member) { owner.leave(time.Second) })
	case "kill under a message":
		c.under(dice, func(owner *member) {
			owner.kill()
			c.node.world.later(time.Second, owner.start)
		})
	default:
		return false
	}
	return true
}

// under executes an action on the owner of a store while calls for its agents wait there that every
// member has forwarded.
func (c *cluster) under(dice *rand.Rand, do func(owner *member)) {
	all := c.stores()
	n := all[dice.IntN(len(all))]
	for _, m := range c.members { // few, so that workers can end all of it once faults are over
		writers[dice.IntN(len(writers))](n, m, &message{task: task{agent: pick(dice, "lead", "helper")}, text: nameless + n.visits.id()})
	}
	n.world.later(time.Duration(dice.IntN(300))*time.Millisecond, func() {
		if p := n.process(); p != nil {
			do(p.life.of)
		}
	})
}
