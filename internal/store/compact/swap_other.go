//go:build !linux && !darwin

package compact

import "errors"

func exchange(_, _ string) error { return errors.ErrUnsupported }
