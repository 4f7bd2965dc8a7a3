package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"time"
)

// Entry is one line of the audit log.
type Entry struct {
	// Seq is the number of the line. Numbers count from 1, without gaps.
	Seq uint64 `json:"n"`
	// At is the time at which the call was answered.
	At time.Time `json:"at"`
	// Principal is the caller; "" = not known.
	Principal string `json:"principal,omitempty"`
	// Namespace and Resource identify what the call was about: a run, a pack, a webhook, ...
	Namespace string `json:"namespace,omitempty"`
	Resource  string `json:"resource,omitempty"`
	// Method is the gRPC method without its first slash, or the name of an action of the process itself.
	Method string `json:"method"`
	// Step and Decision are set for a decision about a held call (a tool call that waits for approval). Step is the
	// number of the step. Decision is APPROVE, DENY or EDIT. They are set for every way to decide: the API, a decision
	// link, and an A2A message.
	Step     uint32 `json:"step,omitempty"`
	Decision string `json:"decision,omitempty"`
	// Outcome is OK or the name of the gRPC status, and Reason is the reason of the error. Outcome is BEGUN in the line before the whole
	// store is sent.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// RequestID is the id that the caller gave to the call.
	RequestID string `json:"request_id,omitempty"`
	// Peer is the network address of the caller.
	Peer string `json:"peer,omitempty"`
	// LeftOut is the number of refused calls of unknown callers, since the previous line, that have no line because there were too many.
	LeftOut int64 `json:"left_out,omitempty"`
	// Note is a message of the process, or the name of the principal for which the caller speaks.
	Note string `json:"note,omitempty"`
	// Keyed means that the hash of the line is made with the key of the log. Lines of versions before this field lack it.
	Keyed bool `json:"keyed,omitempty"`
	// Prev is the hash of the previous line. It is 64 zeros in the first line.
	Prev string `json:"prev"`
}

// A line ends with the hash of all text before it in the line.
const (
	hashBefore = `,"hash":"`
	hashAfter  = `"}`
	tailBytes  = len(hashBefore) + 2*sha256.Size + len(hashAfter)
)

// zero is the previous hash of the first line.
var zero = hex.EncodeToString(make([]byte, sha256.Size))

// hashOf returns the hash of the body of a line. It is HMAC-SHA256 if there is a key, else SHA-256.
func hashOf(key, body []byte) string {
	var h hash.Hash
	if len(key) == 0 {
		h = sha256.New()
	} else {
		h = hmac.New(sha256.New, key)
	}
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// line encodes an entry as a line and returns the hash of the line.
func (e *Entry) line(key []byte) (line []byte, sum string, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, "", err
	}
	body = body[:len(body)-1]
	sum = hashOf(key, body)
	return fmt.Appendf(body, "%s%s%s\n", hashBefore, sum, hashAfter), sum, nil
}

// ErrNeedsKey is the error about a log whose lines are made with a key, if no key is given. Whether a line was changed cannot be
// known without the key.
var ErrNeedsKey = errors.New("the log is made with a key, and it is verified with that key only")

var (
	errHash    = errors.New("its hash is not that of what it says")
	errKeyless = errors.New("its hash is made without the key: either the log has no key, or the line was not written by the sidecar")
)

// parse decodes a line without its line break and verifies the hash in it. Errors: [ErrNeedsKey] if the
// line says that it is made with a key and key is nil.
func parse(key, line []byte) (e Entry, sum string, err error) {
	if len(line) < tailBytes || !bytes.HasSuffix(line, []byte(hashAfter)) {
		return e, "", errors.New("it is no line of an audit")
	}
	body, tail := line[:len(line)-tailBytes], line[len(line)-tailBytes:]
	said, ok := bytes.CutPrefix(tail, []byte(hashBefore))
	if !ok {
		return e, "", errors.New("it is no line of an audit")
	}
	decoded := json.NewDecoder(bytes.NewReader(line)).Decode(&e)
	sum = hashOf(key, body)
	switch {
	case hmac.Equal(said[:2*sha256.Size], []byte(sum)):
	case decoded == nil && e.Keyed && len(key) == 0:
		return e, "", ErrNeedsKey
	case len(key) > 0 && hmac.Equal(said[:2*sha256.Size], []byte(hashOf(nil, body))):
		return e, "", errKeyless
	default:
		return e, "", errHash
	}
	if decoded != nil {
		return e, "", fmt.Errorf("it cannot be read: %w", decoded)
	}
	return e, sum, nil
}
