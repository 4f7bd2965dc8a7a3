package delivery

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Delegations reads the stored delegations, and records their outcomes.
type Delegations interface {
	// Outbox lists the rows of a kind, the earliest first.
	Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error)
	// Delegation reads a pending delegation. [machine.ErrNoStep] means that it is over.
	Delegation(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error)
	// CalledOff reads the last known state of a delegation that is over. [machine.ErrNoStep] means that
	// there is no task to cancel.
	CalledOff(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error)
	// Announce commits that the message of a pending delegation is about to be sent. False means that it
	// may not be sent now.
	Announce(ctx context.Context, row machine.OutboxRow, remote machine.Remote) (bool, error)
	// NoteDelegation commits news about a pending delegation. A *machine.Error means that the news
	// contradicts the journal or is too large.
	NoteDelegation(ctx context.Context, row machine.OutboxRow, remote machine.Remote, question []machine.Part) error
	// ResolveDelegation commits the outcome of the step.
	ResolveDelegation(ctx context.Context, row machine.OutboxRow, outcome machine.Outcome) error
	// DropOutbox removes a finished row.
	DropOutbox(ctx context.Context, row machine.OutboxRow) error
}

// Subscriptions reads the subscriptions with deliveries, and stores their positions.
type Subscriptions interface {
	// Subscriptions lists the subscriptions of a kind, of one run, or of all runs if run is "".
	Subscriptions(ctx context.Context, kind machine.SubscriptionKind, run string) ([]machine.Subscription, error)
	// Subscription reads a subscription. It returns nil if there is none.
	Subscription(ctx context.Context, key machine.SubscriptionKey) (*machine.Subscription, error)
	// Advance stores the position of a subscription, even if other fields have changed, and returns the
	// subscription. [machine.ErrSubscriptionChanged] means that it was removed or replaced.
	Advance(ctx context.Context, of *machine.Subscription, after uint64, index uint16) (machine.Subscription, error)
	// NoteTry stores the outcome of a failed try, if the subscription has not changed since before was
	// read. Otherwise it returns [machine.ErrSubscriptionChanged].
	NoteTry(ctx context.Context, sub machine.Subscription, before *machine.Subscription, letter *machine.DeadLetter) error
	// ListDeadLetters and DiscardDeadLetter concern deliveries that failed after the last try.
	ListDeadLetters(ctx context.Context, key machine.SubscriptionKey, after uint64, limit int) ([]machine.DeadLetter, error)
	DiscardDeadLetter(ctx context.Context, key machine.SubscriptionKey, n uint64) error
}

// Feed returns the events of subscriptions of one kind.
type Feed interface {
	// Open opens the events after the subscription's position.
	Open(ctx context.Context, sub *machine.Subscription) (Events, error)
	// May checks before each try that the owner may read the records now. While it returns a
	// *machine.Error, no message is sent.
	May(sub *machine.Subscription) error
}

// Events are the events of one subscription, in order.
type Events interface {
	// Next waits for the next deliveries. io.EOF means that the subscription has ended. A delivery without
	// an ID only advances the position: there is no message up to it.
	Next(ctx context.Context) ([]machine.Delivery, error)
	Close()
}

// Peer is a connection to one agent. Its errors are *[machine.AgentFault], or those of the context.
type Peer interface {
	// Idempotent reports whether the agent answers the same message with the same task, however often it
	// is sent. Other agents may do the work again.
	Idempotent() bool
	// Bound reports whether the agent declares that it applies the lists of tools of a delegation.
	Bound() bool
	// Send sends the agent a message and returns its task.
	Send(ctx context.Context, from *machine.Delegation, message machine.AgentMessage) (machine.AgentTask, error)
	// Follow calls its callback each time the task asks a question or has ended, until it returns false or the
	// connection breaks.
	Follow(ctx context.Context, task string, told func(machine.AgentTask) bool) error
	// Get returns the present task.
	Get(ctx context.Context, task string) (machine.AgentTask, error)
	// Cancel cancels the task. A task that has already ended is no error.
	Cancel(ctx context.Context, task string) error
}

// Directory finds agents. Addresses come only from the operator's configuration.
type Directory interface {
	// Peer returns the connection to the agent of a delegation, and the address of its card, which is ""
	// for a member of this sidecar. A *[machine.AgentFault] means that there is no such agent.
	Peer(ctx context.Context, d *machine.Delegation) (peer Peer, cardURL string, err error)
}
