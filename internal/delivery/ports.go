package delivery

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Delegations are those that stand in the store, and who takes the news of them.
type Delegations interface {
	// Outbox lists rows of a kind, earliest first.
	Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error)
	// Delegation reads a delegation that is pending; [machine.ErrNoStep] = it is
	// over.
	Delegation(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error)
	// CalledOff reads a delegation that is over as it was last known; [machine.ErrNoStep] =
	// there is nothing to call off.
	CalledOff(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error)
	// Announce commits that the message of a pending one is about to be sent; false: it may
	// not be sent now.
	Announce(ctx context.Context, row machine.OutboxRow, remote machine.Remote) (bool, error)
	// NoteDelegation commits what is news of a pending one. A *machine.Refusal: the
	// news contradicts what is known, or is too large.
	NoteDelegation(ctx context.Context, row machine.OutboxRow, remote machine.Remote, question []machine.Part) error
	// ResolveDelegation answers the step.
	ResolveDelegation(ctx context.Context, row machine.OutboxRow, outcome machine.Outcome) error
	// DropOutbox removes a row that is done with.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error
}

// Subscriptions are those whose records are delivered, and how far each has come.
type Subscriptions interface {
	// Subscriptions lists those of a kind; of all runs for "".
	Subscriptions(ctx context.Context, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	// Subscription reads one; nil = there is none.
	Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error)
	// Advance stores how far one has come, whatever else of it was changed, and returns
	// it; [machine.ErrSubscriptionChanged]: it is gone, or another one.
	Advance(ctx context.Context, of *machine.Subscription, after uint64, index uint16) (machine.Subscription, error)
	// NoteTry stores what became of a try that failed, if the subscription is still as
	// it was read; [machine.ErrSubscriptionChanged].
	NoteTry(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error
	// ListDeadLetters and DiscardDeadLetter are about deliveries that were given up.
	ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error)
	DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error
}

// Feed makes the events of subscriptions of one kind.
type Feed interface {
	// Open begins behind the subscription's position.
	Open(ctx context.Context, sub *machine.Subscription) (Events, error)
	// May is asked before each try: whether the owner may be told, by the rights that hold
	// now. A *machine.Refusal: nothing is sent until it may.
	May(sub *machine.Subscription) error
}

// Events are those of one subscription, in order.
type Events interface {
	// Next waits for more; io.EOF: nothing more will come. A position without an ID
	// is one that was passed over: there is nothing to deliver up to it.
	Next(ctx context.Context) ([]machine.Delivery, error)
	Close()
}

// Peer reaches one agent. Errors are *[machine.AgentFault], or the context's.
type Peer interface {
	// Idempotent: the agent answers the same message with the same task, however often
	// it is sent. Others may do the work again.
	Idempotent() bool
	// Bound: the agent declares that it keeps to the lists of tools of a delegation.
	Bound() bool
	// Send gives the agent a message and returns its task as it is then.
	Send(ctx context.Context, from *machine.Delegation, message machine.AgentMessage) (machine.AgentTask, error)
	// Follow tells the task each time that it asks or has ended, until told says
	// false or the connection breaks.
	Follow(ctx context.Context, task string, told func(machine.AgentTask) bool) error
	// Get returns the task as it is.
	Get(ctx context.Context, task string) (machine.AgentTask, error)
	// Cancel ends the task; one that has ended already is no error.
	Cancel(ctx context.Context, task string) error
}

// Directory says where agents live: what the operator configured, nothing else.
type Directory interface {
	// Peer returns the way to the agent of a delegation and the address of its card,
	// "" = a member of this sidecar. A *[machine.AgentFault]: there is none.
	Peer(ctx context.Context, d *machine.Delegation) (peer Peer, cardURL string, err error)
}
