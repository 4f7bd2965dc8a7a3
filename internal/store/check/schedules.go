package check

import (
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// schedules checks that the rows with the progress of schedules can be decoded.
func (c *Checker) schedules() error {
	return c.Each([]byte{layout.KindSchedule}, func(key, value []byte) error {
		ns, _, err := layout.ReadScheduleKey(key)
		if err == nil {
			_, err = codec.DecodeSchedule(value)
		}
		if err != nil {
			return &Fault{Namespace: ns, Row: layout.Kinds[layout.KindSchedule].Row, Detail: err.Error()}
		}
		return nil
	})
}
