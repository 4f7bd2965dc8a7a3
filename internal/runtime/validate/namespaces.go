package validate

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// DefaultNamespace is the namespace of calls that do not name a namespace. Its number is 0.
const DefaultNamespace = "default"

// Namespaces maps the names of the configured namespaces to their numbers. A number is never reused.
// The map must not change while it is used.
type Namespaces map[string]uint32

// WithDefault returns a copy of the map that contains the default namespace with the number 0.
func (n Namespaces) WithDefault() Namespaces {
	all := Namespaces{DefaultNamespace: 0}
	maps.Copy(all, n)
	return all
}

// Number returns the number of a namespace. "" means the default namespace. Error: NOT_FOUND
// NAMESPACE_NOT_FOUND.
func (n Namespaces) Number(name string) (uint32, error) {
	if name == "" {
		return 0, nil
	}
	if number, ok := n[name]; ok {
		return number, nil
	}
	return 0, NotServed(name, n.Names())
}

// NumberWithin is [Namespaces.Number] for a principal that may use only the namespaces in `only`. If only is
// nil, it may use all. All other namespaces give the same error, whether they exist or not.
func (n Namespaces) NumberWithin(name string, only []string) (uint32, error) {
	if only == nil {
		return n.Number(name)
	}
	if name == "" {
		name = DefaultNamespace
	}
	number, served := n[name]
	if !served || !slices.Contains(only, name) {
		return 0, NotServed(name, only)
	}
	return number, nil
}

// NotServed returns the error for a namespace that the caller may not use or that does not exist.
// allowed are the namespaces that the caller may use.
func NotServed(name string, allowed []string) error {
	return &machine.Error{
		Code: machine.CodeNotFound, Reason: "NAMESPACE_NOT_FOUND", Field: "namespace",
		Message: fmt.Sprintf("namespace %q is not configured", name), Allowed: allowed,
	}
}

// Names lists the names in order.
func (n Namespaces) Names() []string { return slices.Sorted(maps.Keys(n)) }

// Name returns the name of the namespace with this number. It returns "" if there is none.
func (n Namespaces) Name(number uint32) string {
	for name, of := range n {
		if of == number {
			return name
		}
	}
	return ""
}

// Validate returns all faults of the configured namespaces.
func (n Namespaces) Validate() []error {
	var faults []error
	taken := map[uint32]string{0: DefaultNamespace}
	for name, number := range n {
		other, used := taken[number]
		switch {
		case name == "":
			faults = append(faults, errors.New("a namespace has no name"))
		case name == DefaultNamespace && number != 0:
			faults = append(faults, fmt.Errorf("namespace %q has number %d; it is always 0", name, number))
		case used && other != name:
			faults = append(faults, fmt.Errorf("namespaces %q and %q share number %d", other, name, number))
		}
		taken[number] = name
	}
	return faults
}

// SplitTenant splits the tenant of an A2A request into namespace and agent. The form is
// NAMESPACE:AGENT, or only AGENT for the caller's own namespace, for which namespace is "". If AGENT
// begins with the digest of a pack ("sha256:"), this prefix is not a namespace. A text with a slash
// before the colon is not one either.
func SplitTenant(tenant string) (namespace, agent string) {
	namespace, agent, ok := strings.Cut(tenant, ":")
	if !ok || namespace == digestPrefix || strings.Contains(namespace, "/") {
		return "", tenant
	}
	return namespace, agent
}

// JoinTenant is the inverse of [SplitTenant]. An empty namespace means the caller's own namespace,
// which may not be the default namespace. So the default namespace must be named like any other.
func JoinTenant(namespace, agent string) string {
	if namespace == "" {
		return agent
	}
	return namespace + ":" + agent
}

// digestPrefix is the first part of the digest of a pack.
const digestPrefix = "sha256"

// These constants are the default and the largest number of rows in a page of a list.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000
)

// PageSize returns the number of rows in a page. n is the requested number. 0 means [DefaultPageSize].
func PageSize(n int) (int, error) {
	switch {
	case n == 0:
		return DefaultPageSize, nil
	case n < 0 || n > MaxPageSize:
		return 0, &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "BAD_PAGE_SIZE", Field: "page_size",
			Message: "must be 0 (the default) or more, and at most the limit", Limit: MaxPageSize, Got: int64(n),
		}
	}
	return n, nil
}

// ListFailed adds the name of a list to an error that occurred while the list was read. A
// [machine.Error] is returned unchanged, because it is meant for the caller.
func ListFailed(what string, err error) error {
	if _, ok := errors.AsType[*machine.Error](err); ok {
		return err
	}
	return fmt.Errorf("runtime: list %s: %w", what, err)
}

// Cursor is a position in the journal of all runs of a namespace: after the record with the index Index
// in the entry at Position. Callers must treat its text form as opaque.
type Cursor struct {
	// Epoch is the identifier of the store that the cursor belongs to.
	Epoch [16]byte
	// Position is the position of an entry in the journal, from 1. 0 means before all entries.
	Position uint64
	// Index is the index of a record in the entry, from 0. WholeEntry means after all of its records.
	Index uint16
}

// WholeEntry is the Index of a cursor that comes after all records of an entry.
const WholeEntry = 1<<16 - 1

const cursorBytes = 16 + 8 + 2

// String returns the text form of the cursor, which callers receive.
func (c Cursor) String() string {
	var raw [cursorBytes]byte
	copy(raw[:], c.Epoch[:])
	binary.BigEndian.PutUint64(raw[16:], c.Position)
	binary.BigEndian.PutUint16(raw[24:], c.Index)
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// ParseCursor parses the text form of a cursor. It does not check whether the cursor belongs to this
// store, see [Cursor.Resumable].
func ParseCursor(token string) (Cursor, error) {
	var c Cursor
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	// The length of the text is checked, too, because the decoder ignores line breaks even in strict
	// mode.
	if err != nil || len(raw) != cursorBytes || len(token) != base64.RawURLEncoding.EncodedLen(cursorBytes) {
		return c, Malformed("BAD_CURSOR", "after_cursor", "is not a cursor of a stream")
	}
	copy(c.Epoch[:], raw)
	c.Position = binary.BigEndian.Uint64(raw[16:])
	c.Index = binary.BigEndian.Uint16(raw[24:])
	return c, nil
}

// Resumable returns an error if a caller's cursor does not belong to the store with this epoch, or is
// after the newest position (tail) of the journal.
func (c Cursor) Resumable(epoch [16]byte, tail uint64) error {
	switch {
	case c.Epoch != epoch:
		return &machine.Error{
			Code: machine.CodeOutOfRange, Reason: "CURSOR_FOREIGN", Field: "after_cursor",
			Message: "the cursor is of another store; begin without a cursor",
		}
	case c.Position > tail:
		return &machine.Error{
			Code: machine.CodeOutOfRange, Reason: "CURSOR_AHEAD", Field: "after_cursor",
			Message: fmt.Sprintf("the journal ends at %d, before the cursor", tail),
			Limit:   toInt64(tail), Got: toInt64(c.Position),
		}
	}
	return nil
}

// toInt64 converts a position to the signed number that an error contains.
func toInt64(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
