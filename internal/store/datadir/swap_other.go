//go:build !linux && !darwin

package datadir

import "errors"

func exchange(_, _ string) error { return errors.ErrUnsupported }
