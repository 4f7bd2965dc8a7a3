package delivery

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Delegations reads the stored delegations, and records their outcomes.
type Delegations interface {
	// Outbox lists rows of a kind, earliest first.
	Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error)
	// Delegation reads a delegation that is pending; [machine.ErrNoStep] = it is
	// over.
	Delegation(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error)
	// CalledOff reads the last known state of a delegation that is over; [machine.ErrNoStep] =
	// there is no task to cancel.
	CalledOff(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error)
	// Announce commits that the message of a pending one is about to be sent; false: it may
	// not be sent now.
	Announce(ctx context.Context, row machine.OutboxRow, remote machine.Remote) (bool, error)
	// NoteDelegation commits what is news of a pending one. A *machine.Error: the
	// news contradicts what is known, or is too large.
	NoteDelegation(ctx context.Context, row machine.OutboxRow, remote machine.Remote, question []machine.Part) error
	// ResolveDelegation answers the step.
	ResolveDelegation(ctx context.Context, row machine.OutboxRow, outcome machine.Outcome) error
	// DropOutbox removes a row that is done with.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error
}

// Subscriptions reads the subscriptions with deliveries, and stores their positions.
type Subscriptions interface {
	// Subscriptions lists those of a kind; of all runs for "".
	Subscriptions(ctx context.Context, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	// Subscription reads one; nil = there is none.
	Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error)
	// Advance stores the position of a subscription, even if other fields have changed, and
	// returns it; [machine.ErrSubscriptionChanged]: it was removed or replaced.
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
	// May checks before each try that the owner has the right to the records now. After a
	// *machine.Error no message is sent until it has.
	May(sub *machine.Subscription) error
}

// Events are those of one subscription, in order.
type Events interface {
	// Next waits for the next deliveries; io.EOF: the subscription has ended. A position
	// without an ID was skipped: there is no message up to it.
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
	// Follow calls its callback each time the task asks a question or has ended, until the
	// callback returns false or the connection breaks.
	Follow(ctx context.Context, task string, told func(machine.AgentTask) bool) error
	// Get returns the task as it is.
	Get(ctx context.Context, task string) (machine.AgentTask, error)
	// Cancel ends the task; one that has ended already is no error.
	Cancel(ctx context.Context, task string) error
}

// Directory returns the addresses of agents, only from the operator's configuration.
type Directory interface {
	// Peer returns the way to the agent of a delegation and the address of its card,
	// "" = a member of this sidecar. A *[machine.AgentFault]: there is none.
	Peer(ctx context.Context, d *machine.Delegation) (peer Peer, cardURL string, err error)
}
