package machine

import "errors"

// ErrSubscriptionChanged: a subscription is not, or no longer, as it was read.
var ErrSubscriptionChanged = errors.New("the subscription has changed")

// SubscriptionKind numbers what follows records; the numbers are stored.
type SubscriptionKind uint8

const (
	// SubscriptionPush sends the events of one A2A task to a URL.
	SubscriptionPush SubscriptionKind = iota + 1
	// SubscriptionWebhook sends records to a URL.
	SubscriptionWebhook
	// SubscriptionConsumer keeps how far a consumer has read.
	SubscriptionConsumer
)

// SubscriptionKey names one subscription.
type SubscriptionKey struct {
	Namespace uint32
	Kind      SubscriptionKind
	// Run is the task of a push; "" for the other kinds.
	Run string
	ID  string
}

// Subscription is something that follows records, and how far it has come. What is
// behind its position is still to be delivered, in order.
type Subscription struct {
	SubscriptionKey
	// Owner is the principal that made it, and the one that records are read as.
	Owner string
	// CreatedAt is Unix nanoseconds.
	CreatedAt int64

	URL string
	// Token is sent back as it is, Scheme and Credentials in the header
	// Authorization; Secret signs what is sent. None is ever told again.
	Token       string
	Scheme      string
	Credentials string
	Secret      []byte
	// Filter and Kinds select records (webhooks); empty = transitions and ends.
	Filter RunFilter
	Kinds  []RecordKind

	// After is what was delivered last: a record's seq for a push, else a position in
	// the journal of all runs; Index counts the records of its entry.
	After uint64
	Index uint16
	// Attempts of the next delivery that failed so far, NextAt when it is tried again
	// (Unix nanoseconds), LastError why.
	Attempts  int
	NextAt    int64
	LastError string
	// Done: nothing more will come; of a consumer: its place was given up.
	Done bool
	// SeenAt is when a consumer was seen reading, Unix nanoseconds, to within a part of the
	// time after which it is forgotten; 0 = nobody has looked yet.
	SeenAt int64
	// Dead counts the dead letters ever made.
	Dead uint64
}

// Delivery is one thing that a subscription is told.
type Delivery struct {
	// After and Index are where the subscription stands once it is delivered.
	After uint64
	Index uint16
	// ID is the same each time that it is delivered; "" = there is nothing to deliver
	// up to this position.
	ID string
	// Type is the media type of Body.
	Type string
	Body []byte
	// Erasable: the body has values of a run that can be erased, and is kept nowhere.
	Erasable bool
}

// DeadLetter is a delivery that was given up.
type DeadLetter struct {
	// N numbers the letters of a subscription, from 1.
	N uint64
	// At is when it was given up, Unix nanoseconds.
	At int64
	// Event is the id of what was to be delivered, Type its media type, Body the
	// bytes.
	Event string
	Type  string
	Body  []byte
	// Error is what the last attempt met.
	Error string
	// Withheld: the body is not kept, since it has values of a run that can be erased.
	Withheld bool
}
