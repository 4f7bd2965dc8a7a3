package convert

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// MaxPageBytes limits a page of a list, in bytes. A page with a single larger item may exceed it. A
// client that uses gRPC's default limit of 4 MiB must be able to read every page.
const MaxPageBytes = 1 << 20

// PageSizer counts the bytes of a page.
type PageSizer struct{ used int }

// TryAdd adds an item to the page if it fits. It reports whether it has added the item.
func (r *PageSizer) TryAdd(item proto.Message) bool {
	size := proto.Size(item)
	if r.used > 0 && r.used+size > MaxPageBytes {
		return false
	}
	r.used += size
	return true
}

// pageSum is the length of the hash that ties a page token to its list, in bytes.
const pageSum = 8

// PageToken returns the token of a list's next page. position is the position that the engine returned.
// If it is "", the token is "". The token is valid only for the same request, except for page_size.
// With another list or filter, the page would start at an arbitrary position.
func PageToken(list proto.Message, position string) string {
	if position == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(pageBinding(list, position), position...))
}

// PagePosition returns the position in the page token of a request. It is the inverse of [PageToken].
func PagePosition(list interface {
	proto.Message
	GetPageToken() string
}) (string, error) {
	if list.GetPageToken() == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(list.GetPageToken())
	if err == nil && len(raw) > pageSum && bytes.Equal(raw[:pageSum], pageBinding(list, string(raw[pageSum:]))) {
		return string(raw[pageSum:]), nil
	}
	return "", &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "BAD_PAGE_TOKEN", Field: "page_token",
		Message: "is no next_page_token of this list with these fields",
	}
}

// pageBinding returns a hash of a position and of a list request without its page token and page size.
func pageBinding(list proto.Message, position string) []byte {
	bound := proto.Clone(list).ProtoReflect()
	for _, name := range []protoreflect.Name{"page_token", "page_size"} {
		bound.Clear(bound.Descriptor().Fields().ByName(name))
	}
	// Deterministic encoding is stable only within one build, but page tokens do not need to be valid
	// longer than that. A message of this process can always be encoded.
	request, _ := proto.MarshalOptions{Deterministic: true}.Marshal(bound.Interface())
	hash := sha256.New()
	hash.Write([]byte(bound.Descriptor().FullName()))
	hash.Write(request)
	hash.Write([]byte{0})
	hash.Write([]byte(position))
	return hash.Sum(nil)[:pageSum]
}
