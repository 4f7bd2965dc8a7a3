package convert

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// MaxPageBytes bounds a page of a list, unless its first item alone is larger: a
// client with gRPC's own limit of 4 MiB must be able to read every page.
const MaxPageBytes = 1 << 20

// PageSizer is what a page can still hold.
type PageSizer struct{ used int }

// TryAdd reports whether one more item fits and adds it if it does.
func (r *PageSizer) TryAdd(item proto.Message) bool {
	size := proto.Size(item)
	if r.used > 0 && r.used+size > MaxPageBytes {
		return false
	}
	r.used += size
	return true
}

// pageSum is how many bytes of a hash bind a page token to its list.
const pageSum = 8

// PageToken makes the token of a list's next page from the position that the engine returned;
// "" stays "". It is valid for the same request only, except page_size: with another list or
// filter it would start at an arbitrary position.
func PageToken(list proto.Message, position string) string {
	if position == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(pageBinding(list, position), position...))
}

// PagePosition is the inverse of [pageToken].
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

// pageBinding hashes a list's request without token and size, and a position.
func pageBinding(list proto.Message, position string) []byte {
	bound := proto.Clone(list).ProtoReflect()
	for _, name := range []protoreflect.Name{"page_token", "page_size"} {
		bound.Clear(bound.Descriptor().Fields().ByName(name))
	}
	// Deterministic within one build, which is all that a page token has to live;
	// a message of this process always has a wire form.
	request, _ := proto.MarshalOptions{Deterministic: true}.Marshal(bound.Interface())
	hash := sha256.New()
	hash.Write([]byte(bound.Descriptor().FullName()))
	hash.Write(request)
	hash.Write([]byte{0})
	hash.Write([]byte(position))
	return hash.Sum(nil)[:pageSum]
}
