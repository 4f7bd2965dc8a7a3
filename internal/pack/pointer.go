package pack

import (
	"strconv"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// pointer joins reference tokens to an RFC 6901 JSON pointer.
func pointer(tokens ...string) string { return source.Pointer(tokens...) }

// index is a reference token for an array element.
func index(i int) string { return strconv.Itoa(i) }
