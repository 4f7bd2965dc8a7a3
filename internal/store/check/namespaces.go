package check

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// namespaces checks that no two names have the same number.
func (c *Checker) namespaces() error {
	taken := make(map[uint32]string)
	return c.Each([]byte{layout.KindNamespace}, func(key, value []byte) error {
		ns, number, err := layout.ReadNamespace(key, value)
		if err == nil && taken[number] != "" {
			err = fmt.Errorf("%q and %q share number %d", taken[number], ns, number)
		}
		if err != nil {
			return &Fault{Row: "namespace", Detail: err.Error()}
		}
		taken[number] = ns
		return nil
	})
}

// backups checks that the rows by which the store remembers its backups can be decoded.
func (c *Checker) backups() error {
	return c.Each([]byte{layout.KindBackup}, func(_, value []byte) error {
		if _, err := codec.DecodeNumber(value); err != nil {
			return &Fault{Row: layout.Kinds[layout.KindBackup].Row, Detail: err.Error()}
		}
		return nil
	})
}
