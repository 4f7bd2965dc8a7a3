package machine

import "errors"

// ErrSubscriptionChanged means that a subscription differs from what was read.
var ErrSubscriptionChanged = errors.New("the subscription has changed")

// SubscriptionKind numbers the kinds of subscriptions; the numbers are stored.
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
	// Run is the task of a push; "" for the other kinds.
	Run string
	ID  string
}

// Subscription receives records in order; it stores its position. Records after the position are still to be
// delivered.
type Subscription struct {
	SubscriptionKey
	// Owner is the principal that made it; records are read with its rights.
	Owner string
	// CreatedAt is Unix nanoseconds.
	CreatedAt int64

	URL string
	// Token is sent back unchanged, Scheme and Credentials in the header Authorization; Secret signs what is
	// sent. The API never returns any of them.
	Token       string
	Scheme      string
	Credentials string
	Secret      []byte
	// Filter and Kinds select records (webhooks); empty = transitions and ends.
	Filter RunFilter
	Kinds  []RecordKind
	// LinkFor is the name of the person that decides with the links of held calls; "" = there are
	// no links. Format is the form of the messages.
	LinkFor string
	Format  MessageFormat

	// After is the last delivered position: a record's seq for a push, otherwise a position in the journal of
	// all runs; Index counts the records of its entry.
	After uint64
	Index uint16
	// Attempts is the number of failed attempts of the next delivery, NextAt the time of the next attempt
	// (Unix nanoseconds), LastError the last error.
	Attempts  int
	NextAt    int64
	LastError string
	// Done means that no more deliveries follow; for a consumer, that its position was dropped.
	Done bool
	// SeenAt is when a consumer last read, Unix nanoseconds. It is accurate to a fraction of the time after
	// which an idle consumer is deleted; 0 = no read yet.
	SeenAt int64
	// Dead counts all dead letters ever made.
	Dead uint64
}

// MessageFormat is the form in which a webhook gets its records.
type MessageFormat uint8

// The forms. The numbers are stored.
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
	// ID is the same each time it is delivered; "" = there is no message to deliver up to this position.
	ID string
	// Type is the media type of Body.
	Type string
	Body []byte
	// Erasable means that the body has values of a run that can be erased; the body is never stored.
	Erasable bool
}

// DeadLetter is a delivery that failed after the last attempt.
type DeadLetter struct {
	// N numbers the letters of a subscription, from 1.
	N uint64
	// At is when it became one, Unix nanoseconds.
	At int64
	// Event is the id of the undelivered message, Type its media type, Body the bytes.
	Event string
	Type  string
	Body  []byte
	// Error is the error of the last attempt.
	Error string
	// Withheld means that the body is not stored, because it has values of a run that can be erased.
	Withheld bool
}
