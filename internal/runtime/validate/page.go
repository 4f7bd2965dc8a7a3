package validate

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Bounds of lists.
const (
	DefaultPageSize = 100
	MaxPageSize     = 1000
)

// PageSize returns the number of rows of a page. n is the requested number. 0 means [DefaultPageSize].
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

// ListFailed adds the name of a list to the error that occurred while the list was read. A
// [machine.Error] is returned unchanged.
func ListFailed(what string, err error) error {
	if _, ok := errors.AsType[*machine.Error](err); ok {
		return err
	}
	return fmt.Errorf("runtime: list %s: %w", what, err)
}
