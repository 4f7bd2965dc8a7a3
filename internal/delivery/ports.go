package delivery

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Delegations reads the stored delegations and records their outcomes.
type Delegations interface {
	// Outbox lists the stored outbox rows (delegations to send, or tasks to cancel) of a kind. The row
	// that is due first comes first.
	Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error)
	// Delegation reads a pending delegation. [machine.ErrNoStep] means that the delegation is over.
	Delegation(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error)
	// CalledOff reads the last known state of a delegation that is over. [machine.ErrNoStep] means that
	// there is no task of the agent to cancel.
	CalledOff(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error)
	// Announce commits that the message of a pending delegation is about to be sent. If the result is
	// false, the message may not be sent now.
	Announce(ctx context.Context, row machine.OutboxRow, remote machine.Remote) (bool, error)
	// NoteDelegation commits a changed state of a pending delegation. A *machine.Error means that the
	// new state contradicts the journal or is too large.
	NoteDelegation(ctx context.Context, row machine.OutboxRow, remote machine.Remote, question []machine.Part) error
	// ResolveDelegation commits the outcome of the step.
	ResolveDelegation(ctx context.Context, row machine.OutboxRow, outcome machine.Outcome) error
	// DropOutbox removes an outbox row whose work is finished.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error
}

// Subscriptions reads subscriptions, and stores how far their events were delivered.
type Subscriptions interface {
	// Subscriptions lists the subscriptions of a kind for one run. If run is "", it lists those of all
	// runs.
	Subscriptions(ctx context.Context, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	// Subscription reads a subscription. It returns nil if there is none.
	Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error)
	// Advance stores the position after the delivered events of a subscription, and returns the current
	// subscription. It does so even if other fields of the subscription have changed.
	// [machine.ErrSubscriptionChanged] means that the subscription was removed or replaced.
	Advance(ctx context.Context, of *machine.Subscription, after uint64, index uint16) (machine.Subscription, error)
	// NoteTry stores a changed subscription after a failed attempt to send an event, when its owner loses or regains the
	// right to read, or when it has ended. If the subscription has changed since before was read, it stores nothing and
	// returns [machine.ErrSubscriptionChanged].
	NoteTry(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error
	// ListDeadLetters lists the events that failed after the last attempt. DiscardDeadLetter removes
	// one of them.
	ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error)
	DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error
}

// Feed provides the events of subscriptions of one kind.
type Feed interface {
	// Open opens the events after the subscription's position.
	Open(ctx context.Context, sub *machine.Subscription) (Events, error)
	// May returns a *[machine.Error] if the owner of the subscription may not read the records now. It
	// is called before each attempt. While it returns an error, no event is sent.
	May(sub *machine.Subscription) error
}

// Events is a stream of the events of one subscription, in order.
type Events interface {
	// Next waits for the next events. io.EOF means that the subscription has ended. A delivery without
	// an ID contains no event and only advances the position.
	Next(ctx context.Context) ([]machine.Delivery, error)
	Close()
}

// Peer is a connection to one agent. Its errors are *[machine.AgentFault], or the errors of the
// context.
type Peer interface {
	// Idempotent reports whether the agent answers repeated sends of the same message with the same
	// task. Other agents may do the work again.
	Idempotent() bool
	// Bound reports whether the agent declares that it applies the lists of allowed tools in a
	// delegation.
	Bound() bool
	// Send sends a message to the agent and returns the agent's task.
	Send(ctx context.Context, from *machine.Delegation, message machine.AgentMessage) (machine.AgentTask, error)
	// Follow calls notify each time the task asks a question or has ended. It returns when notify returns
	// false or the connection breaks.
	Follow(ctx context.Context, task string, notify func(machine.AgentTask) bool) error
	// Get returns the present state of the task.
	Get(ctx context.Context, task string) (machine.AgentTask, error)
	// Cancel cancels the task. If the task has already ended, this is no error.
	Cancel(ctx context.Context, task string) error
}

// Directory finds agents. Their addresses come only from the operator's configuration.
type Directory interface {
	// Peer returns the connection to the agent of a delegation, and the URL of the agent's card. If the
	// agent is a member of a pack in this sidecar, the URL is "". A *[machine.AgentFault] means that
	// there is none.
	Peer(ctx context.Context, d *machine.Delegation) (peer Peer, cardURL string, err error)
}
