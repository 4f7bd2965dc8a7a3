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

// Entry is one line.
type Entry struct {
	// Seq numbers the lines, dense from 1.
	Seq uint64 `json:"n"`
	// At is when the call was answered.
	At time.Time `json:"at"`
	// Principal is the caller; "" = not known.
	Principal string `json:"principal,omitempty"`
	// Namespace and Resource are the subject of the call: a run, a pack, a webhook, ...
	Namespace string `json:"namespace,omitempty"`
	Resource  string `json:"resource,omitempty"`
	// Method is the gRPC method without its first slash, or the name of an action of the process itself.
	Method string `json:"method"`
	// Outcome is OK or the name of the status, Reason that of the error; BEGUN before the whole store is
	// sent.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	// RequestID is the caller's id of the call.
	RequestID string `json:"request_id,omitempty"`
	// Peer is the caller's address.
	Peer string `json:"peer,omitempty"`
	// LeftOut counts refused calls of unknown callers since the line before that have no line, because there
	// were too many.
	LeftOut int64 `json:"left_out,omitempty"`
	// Note is a message of the process, or the name for which the caller speaks.
	Note string `json:"note,omitempty"`
	// Prev is the hash of the line before; 64 zeros in the first.
	Prev string `json:"prev"`
}

// A line ends with the hash of everything before it in the line.
const (
	hashBefore = `,"hash":"`
	hashAfter  = `"}`
	tailBytes  = len(hashBefore) + 2*sha256.Size + len(hashAfter)
)

// zero is the previous hash of the first line.
var zero = hex.EncodeToString(make([]byte, sha256.Size))

// hashOf returns the hash of the body of a line: HMAC-SHA256 if there is a key.
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

// line encodes an entry and returns its hash.
func (e *Entry) line(key []byte) (line []byte, sum string, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, "", err
	}
	body = body[:len(body)-1]
	sum = hashOf(key, body)
	return fmt.Appendf(body, "%s%s%s\n", hashBefore, sum, hashAfter), sum, nil
}

// parse reads a line without its end and verifies its own hash.
func parse(key, line []byte) (e Entry, sum string, err error) {
	if len(line) < tailBytes || !bytes.HasSuffix(line, []byte(hashAfter)) {
		return e, "", errors.New("it is no line of an audit")
	}
	body, tail := line[:len(line)-tailBytes], line[len(line)-tailBytes:]
	said, ok := bytes.CutPrefix(tail, []byte(hashBefore))
	sum = hashOf(key, body)
	if !ok || !hmac.Equal(said[:2*sha256.Size], []byte(sum)) {
		return e, "", errors.New("its hash is not that of what it says")
	}
	decode := json.NewDecoder(bytes.NewReader(line))
	if err := decode.Decode(&e); err != nil {
		return e, "", fmt.Errorf("it cannot be read: %w", err)
	}
	return e, sum, nil
}
