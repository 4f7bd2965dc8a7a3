package machine

import "errors"

// ErrSubscriptionChanged means that a subscription has changed since it was read.
var ErrSubscriptionChanged = errors.New("the subscription has changed")

// SubscriptionKind is the kind of a subscription. The numbers are stored.
type SubscriptionKind uint8

const (
	// SubscriptionPush sends the events of one A2A task to a URL.
	SubscriptionPush SubscriptionKind = iota + 1
	// SubscriptionWebhook sends records to a URL.
	SubscriptionWebhook
	// SubscriptionConsumer stores the position of a consumer.
	SubscriptionConsumer
)

// SubscriptionKey identifies one subscription.
type SubscriptionKey struct {
	Namespace uint32
	Kind      SubscriptionKind
	// Run is the run of the A2A task, for a push. It is "" for the other kinds.
	Run string
	ID  string
}

// Subscription delivers records in order and stores its position. The records after the position are
// not delivered yet.
type Subscription struct {
	SubscriptionKey
	// Owner is the principal that created the subscription. Records are read with the rights of this principal.
	Owner string
	// CreatedAt is in Unix nanoseconds.
	CreatedAt int64

	URL string
	// Token, Scheme and Credentials are sent to the receiver. Token is sent unchanged. Scheme and
	// Credentials are sent in the header Authorization. Secret signs the messages. The API never
	// returns these values.
	Token       string
	Scheme      string
	Credentials string
	Secret      []byte
	// Filter and Kinds select the records of a webhook. If Kinds is empty, transitions and ends are selected.
	Filter RunFilter
	Kinds  []RecordKind
	// LinkFor is the name of the person that decides with the links of held calls. If it is "", there
	// are no links. Format is the form of the messages.
	LinkFor string
	Format  MessageFormat

	// After is the last delivered position. For a push it is the seq of a record. Otherwise it is a
	// position in the journal of all runs. Index is the number of records of the entry at that position
	// that are delivered.
	After uint64
	Index uint16
	// Attempts is the number of failed attempts of the next delivery. NextAt is the time of the next
	// attempt, in Unix nanoseconds. LastError is the error of the last attempt.
	Attempts  int
	NextAt    int64
	LastError string
	// Done means that no more deliveries follow. For a consumer it means that its position was dropped.
	Done bool
	// SeenAt is the time when a consumer last read, in Unix nanoseconds. It is 0 if the consumer has
	// not read yet. It may be too early by a fraction of the time after which an idle consumer is
	// deleted.
	SeenAt int64
	// Dead is the number of dead letters that the subscription has ever had.
	Dead uint64
}

// MessageFormat is the form in which a webhook gets its records.
type MessageFormat uint8

// The forms of messages. The numbers are stored.
const (
	// FormatCloudEvents is one CloudEvents event with the record.
	FormatCloudEvents MessageFormat = iota
	// FormatSlack is the message of an incoming webhook of Slack.
	FormatSlack
	// FormatTeams is the message of a workflow of Microsoft Teams.
	FormatTeams
	// FormatText is plain text, as for a mail.
	FormatText
)

// Delivery is one message to a subscription.
type Delivery struct {
	// After and Index are the position of the subscription after the delivery.
	After uint64
	Index uint16
	// ID identifies the message. It is the same each time the message is delivered. It is "" if there
	// is no message up to this position.
	ID string
	// Type is the media type of Body.
	Type string
	Body []byte
	// Erasable means that the body contains values of a run that can be erased. Such a body is never stored.
	Erasable bool
}

// DeadLetter is a delivery that failed permanently, after its last attempt.
type DeadLetter struct {
	// N is the number of the dead letter in its subscription, from 1.
	N uint64
	// At is the time of the last failed attempt, in Unix nanoseconds.
	At int64
	// Event is the id of the message that was not delivered. Type is its media type, and Body its bytes.
	Event string
	Type  string
	Body  []byte
	// Error is the error of the last attempt.
	Error string
	// Withheld means that the body is not stored, because it contains values of a run that can be erased.
	Withheld bool
}
