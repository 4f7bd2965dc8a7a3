package check

import (
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// checkErased checks the row of each erased run. The current state of the run must be marked as erased and
// name the key of the row, because that key was destroyed. Otherwise a reader would open the values with
// another key. A run that is being deleted has no state any more.
func (c *Checker) checkErased() error {
	return erasure.Rows(c.Txn, func(ns uint32, e *machine.Erased) error {
		c.report.Erased++
		going, err := c.isBeingRemoved(layout.DeletedKey(ns, e.RunID))
		if err != nil || going {
			return err
		}
		st, err := c.owner("erased run", ns, e.RunID)
		if err != nil {
			return err
		}
		if st.Key != e.Key || st.Erased == nil {
			return &Fault{Namespace: ns, Run: e.RunID, Row: "erased run", Detail: "the state of the run is not marked as erased, or names another key"}
		}
		return nil
	})
}
