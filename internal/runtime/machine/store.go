package machine

import (
	"errors"
	"fmt"
	"time"
)

// The engine and the store both use the types in this file. They are in package machine because both may import it, and
// neither may import the other.

// These are the errors that the store returns. They may be wrapped with more information.
var (
	// ErrSeqConflict means that the last seq of the run is not equal to Batch.Prev. The batch was not
	// stored.
	ErrSeqConflict = errors.New("run's last seq differs")
	// ErrEffectTaken means that another step has a business key of the batch, so that an effect would happen twice. The
	// batch was not stored.
	ErrEffectTaken = errors.New("business key is taken")
	// ErrConsumed means that an idempotency id of the batch is already used. The batch was not stored.
	ErrConsumed = errors.New("idempotency id is taken")
	// ErrIndeterminate means that it is unknown whether the commit happened.
	ErrIndeterminate = errors.New("commit outcome unknown")
	// ErrNoRun means that the namespace has no run with this id.
	ErrNoRun = errors.New("no such run")
	// ErrNoRecord means that the run has no record with this seq.
	ErrNoRecord = errors.New("no such record")
	// ErrNoStep means that the step is not pending, or that the given attempt is not its current attempt.
	ErrNoStep = errors.New("no such pending step")
	// ErrNoPack means that no pack is registered under the reference.
	ErrNoPack = errors.New("no such pack")
)

// Committed is the position of a committed batch in the journal.
type Committed struct {
	// Cursor is the entry's position in the journal: the order of all entries of its namespace. Positions count from 1,
	// without gaps.
	Cursor uint64
	// PrevHash and Hash are the values of the run's hash chain before and after the committed entry.
	PrevHash [32]byte
	Hash     [32]byte
}

// RunKey identifies a run in one store.
type RunKey struct {
	Namespace uint32
	ID        string
}

// Page bounds a read to at most Records entries and about Bytes bytes. A read returns at least one entry if there is
// one. A zero field selects the default: 256 entries, 1 MiB.
type Page struct {
	Records int
	Bytes   int
}

// RunFilter selects runs for a list. The zero value selects all runs.
type RunFilter struct {
	// Pack selects the runs of a pack. It is the pack's id, id@version or digest.
	Pack string
	// Status selects runs in any of these statuses. An empty list selects runs in all statuses.
	Status []Status
	// State selects runs whose current state has this name.
	State string
	// Labels selects runs that have all of these labels.
	Labels []Label
	// Parent selects the runs that were started by a delegation of the run with this id.
	Parent string
	// Reason selects ended runs by their reason: the whole reason, or the part before a colon.
	Reason string
	// CreatedFrom (inclusive) and CreatedBefore (exclusive) bound the start time of the runs, in Unix
	// nanoseconds. 0 means that there is no bound.
	CreatedFrom, CreatedBefore int64
	// IDPrefix selects runs whose id begins with this prefix.
	IDPrefix string
	// Oldest means that the oldest runs are listed first. By default the newest runs come first.
	Oldest bool
}

// PackRow is one registered pack.
type PackRow struct {
	// Digest is "sha256:<64 hex>" of Canonical.
	Digest    string
	ID        string
	Version   string
	Canonical []byte
	// Source is the document exactly as it was registered. It is needed to report positions in the source.
	Source []byte
	// RegisteredAt is in Unix nanoseconds.
	RegisteredAt int64
	// Default means that a reference to the ID without a version means this version.
	Default bool
}

// PackPut is a request to register a pack under id@version.
type PackPut struct {
	Row PackRow
	// Move allows that an id@version that already exists is changed to refer to other contents.
	Move bool
	// MakeDefault means that a reference to the id without a version will mean this version.
	MakeDefault bool
}

// Deleted contains the data that the store keeps about a deleted run: the time, the principal and the reason of the
// deletion, and the id that started the run. The id is kept so that no later start can use it.
type Deleted struct {
	// RunID identifies the run. In the store it is part of the row's key, not of its value.
	RunID string
	// At is the time of the deletion, in Unix nanoseconds. By is the principal that deleted the run. Why is the name of
	// the retention rule that selected the run, or "" if a caller deleted the run.
	At  int64
	By  string
	Why string
	// Status, Records and Hash are the final status of the run, the number of its last record, and its last chain hash.
	Status  Status
	Records uint64
	Hash    [32]byte
	// Commits is the number of entries of the run in the journal.
	Commits uint64
	// Starter is the principal that started the run with the id StartID and a command of the kind
	// StartKind. It is "" if the start had no id.
	Starter   string
	StartKind CommandKind
	StartID   string
}

// Start returns the idempotency row of the id with which the run was started. It returns false if the start had no id.
func (d *Deleted) Start() (Dedupe, bool) {
	return Dedupe{Scope: PerPrincipal, Kind: d.StartKind, Principal: d.Starter, ID: d.StartID}, d.StartID != ""
}

// reasonDeleted is the reason of every error about a deleted run.
const reasonDeleted = "RUN_DELETED"

// Err returns the error for a caller that requests a deleted run.
func (d *Deleted) Err() *Error {
	return &Error{
		Code: CodeNotFound, Reason: reasonDeleted, Field: "run_id",
		Message: fmt.Sprintf("the run %s was deleted at %s", d.RunID, time.Unix(0, d.At).UTC().Format(time.RFC3339)),
	}
}

// IsDeleted reports whether an error means that the requested run was deleted.
func IsDeleted(err error) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Reason == reasonDeleted
}

// Erased records that the values of a run were erased, by destroying its encryption key.
type Erased struct {
	// RunID identifies the run. In the store it is part of the row's key, not of its value.
	RunID string
	// At is the time of the erasure, in Unix nanoseconds. By is the principal that erased the values, and Why the
	// reason that it gave. After a restore of older rows it can happen that only At is known.
	At  int64
	By  string
	Why string
	// Key is the position of the run's encryption key.
	Key uint64
}

// reasonErased is the reason of every error about erased values.
const reasonErased = "RUN_ERASED"

// Err returns the error for a caller that requests erased values of the run.
func (e *Erased) Err() *Error {
	when := ""
	if e.At != 0 {
		when = " at " + time.Unix(0, e.At).UTC().Format(time.RFC3339)
	}
	return &Error{
		Code: CodeFailedPrecondition, Reason: reasonErased, Field: "run_id",
		Message: fmt.Sprintf("the values of the run %s were erased%s", e.RunID, when),
	}
}

// CheckNotErased returns an error if the values of the entry were erased.
func (e *Entry) CheckNotErased() error {
	if !e.Erased {
		return nil
	}
	erased := Erased{RunID: e.RunID}
	return erased.Err()
}

// CheckNotErased returns an error if the values of the run were erased.
func (s *State) CheckNotErased() error {
	if s == nil || s.Erased == nil {
		return nil
	}
	return s.Erased.Err()
}

// IsErased reports whether an error means that the requested values of a run were erased.
func IsErased(err error) bool {
	refusal, ok := errors.AsType[*Error](err)
	return ok && refusal.Reason == reasonErased
}

// ErrNoBlob means that the namespace has no blob with the requested hash.
var ErrNoBlob = errors.New("no such blob")

// ErrUploadChanged means that another request changed the upload in the meantime. The blob was not stored.
var ErrUploadChanged = errors.New("the upload was changed meanwhile")

// Blob describes a stored blob: bytes that are addressed by their SHA-256.
type Blob struct {
	SHA256 [32]byte
	// Size is in bytes. Chunks is the number of pieces in which the blob is stored.
	Size   int64
	Chunks int
	// MediaType is the media type that the first writer set. It is "" if there is none.
	MediaType string
	// At is the time at which the blob was last stored, in Unix nanoseconds.
	At int64
	// Pieces is the id under which the store keeps the pieces of the blob.
	Pieces [16]byte
}

// UploadKey identifies an upload in progress. The caller chooses the ID.
type UploadKey struct{ Principal, ID string }

// Upload is the stored progress of an upload. The zero value means that the upload has not begun.
type Upload struct {
	Size   int64
	Chunks int
	// At is the time at which the last piece was stored, in Unix nanoseconds.
	At     int64
	Pieces [16]byte
}

// BlobSweep is the result of removing blobs and uploads that are no longer needed.
type BlobSweep struct {
	// Blobs and Uploads are the numbers of removed blobs and uploads. Bytes is their total size.
	Blobs, Uploads int
	Bytes          int64
}

// Proof is the result of verifying a run's journal.
type Proof struct {
	// Entries and Records are the numbers of entries and records that were verified. Hash is the last hash of their chain.
	Entries, Records int64
	Hash             [32]byte
	// BadSeq is the first bad record, and Detail describes its fault. They are 0 and "" if all records are good.
	BadSeq uint64
	Detail string
	// Erased means that the values of the run were erased. If so, only the hash chain was verified, and the entries
	// were not replayed.
	Erased bool
}

// OK reports whether no fault was found.
func (p *Proof) OK() bool { return p.BadSeq == 0 }

// Export is the unpacked content of an export file (one run in portable form), before the run is imported.
type Export struct {
	RunID string
	// Digest, Entry, Agent and EntryOverride select the graph of the run.
	Digest        string
	Entry         string
	Agent         string
	EntryOverride bool
	// Pack is the pack as canonical JSON. Digest is its hash.
	Pack []byte
	// Records is the last seq of the run. Hash is the last hash of its hash chain.
	Records uint64
	Hash    [32]byte
	// Spool is the path of the temporary file with the unpacked content.
	Spool string
}

// ErrSubscriptionChanged means that a subscription has changed since it was read.
var ErrSubscriptionChanged = errors.New("the subscription has changed")

// SubscriptionKind is the kind of a subscription. The numbers are stored, so they must never change.
type SubscriptionKind uint8

const (
	// SubscriptionPush sends the events of one A2A task to a URL.
	SubscriptionPush SubscriptionKind = iota + 1
	// SubscriptionWebhook sends records to a URL.
	SubscriptionWebhook
	// SubscriptionConsumer stores the position of a consumer, which is a named reader of records.
	SubscriptionConsumer
)

// SubscriptionKey identifies one subscription.
type SubscriptionKey struct {
	Namespace uint32
	Kind      SubscriptionKind
	// Run is the run of the A2A task for the kind SubscriptionPush. It is "" for the other kinds.
	Run string
	ID  string
}

// Subscription delivers records in order to one receiver and stores its position. The records after the position are
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
	// LinkFor is the name of a person. Messages about held calls contain links to decide, and a decision by a link is
	// recorded as a decision of this person. If LinkFor is "", the messages contain no links. Format is the form of the
	// messages.
	LinkFor string
	Format  MessageFormat

	// After is the last delivered position: the seq of a record for SubscriptionPush, otherwise a position in the
	// journal of all runs. Index is the number of records of the entry at that position that are delivered.
	After uint64
	Index uint16
	// Attempts is the number of failed attempts of the next delivery. NextAt is the time of the next
	// attempt, in Unix nanoseconds. LastError is the error of the last attempt.
	Attempts  int
	NextAt    int64
	LastError string
	// Done means that the subscription makes no more deliveries. For a consumer it means that its position was dropped.
	Done bool
	// SeenAt is the time when the consumer last read, in Unix nanoseconds. It is 0 if it has not read yet. It is stored
	// only now and then, so it may be too early by a fraction of the time after which an idle consumer is deleted.
	SeenAt int64
	// Dead is the number of dead letters (permanently failed deliveries) that the subscription has ever had.
	Dead uint64
}

// MessageFormat is the form in which a webhook receives its messages.
type MessageFormat uint8

// The forms of messages. The numbers are stored.
const (
	// FormatCloudEvents is one CloudEvents event with the record.
	FormatCloudEvents MessageFormat = iota
	// FormatSlack is the JSON that an incoming webhook of Slack expects.
	FormatSlack
	// FormatTeams is the JSON that a workflow of Microsoft Teams expects.
	FormatTeams
	// FormatText is plain text, for example for a mail.
	FormatText
)

// Delivery is one message that is sent to the receiver of a subscription.
type Delivery struct {
	// After and Index are the position of the subscription after this message is delivered.
	After uint64
	Index uint16
	// ID identifies the message. It is the same each time the message is sent. It is "" if the position advances
	// without a message.
	ID string
	// Type is the media type of Body.
	Type string
	Body []byte
	// Erasable means that Body contains values of a run that can be erased. Such a body is never stored.
	Erasable bool
}

// DeadLetter is a delivery that failed permanently, after its last attempt.
type DeadLetter struct {
	// N is the number of the dead letter in its subscription, from 1.
	N uint64
	// At is the time of the last failed attempt, in Unix nanoseconds.
	At int64
	// Event is the id of the message that could not be delivered. Type is its media type, and Body its bytes.
	Event string
	Type  string
	Body  []byte
	// Error is the error of the last attempt.
	Error string
	// Withheld means that the body is not stored, because it contains values of a run that can be erased.
	Withheld bool
}
