package check

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// erased checks the row of an erased run: the values of the run must be unreadable.
func (c *Checker) erased() error {
	return erasure.Rows(c.Txn, func(ns uint32, e *machine.Erased) error {
		c.report.Erased++
		going, err := c.going(layout.DeletedKey(ns, e.RunID))
		if err != nil || going {
			return err
		}
		st, err := c.owner("erased run", ns, e.RunID)
		if err != nil {
			return err
		}
		if st.Key != e.Key || st.Erased == nil {
			return &Fault{Namespace: ns, Run: e.RunID, Row: "erased run", Detail: "its values are told nevertheless"}
		}
		return nil
	})
}
