package convert

import (
	"errors"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
)

// SchedulesToProto converts schedules.
func SchedulesToProto(shown []schedule.Shown) *pawlv1.ListSchedulesResponse {
	out := &pawlv1.ListSchedulesResponse{}
	for i := range shown {
		out.Schedules = append(out.Schedules, scheduleToProto(&shown[i]))
	}
	return out
}

func scheduleToProto(s *schedule.Shown) *pawlv1.Schedule {
	p := &s.Start.Principal
	out := &pawlv1.Schedule{
		ScheduleId: s.ID, Cron: s.Rule.Cron(), TimeZone: s.Rule.Zone(), CatchUp: s.Catch.String(), Overlap: "allow",
		JitterSec: int32(s.Jitter / time.Second), Pack: s.Start.Pack, Agent: s.Start.Agent, Principal: p.Name(), Scopes: p.Scopes.Names(),
		LastRunId: s.Mark.RunID, Fired: s.Mark.Fired, Missed: s.Mark.Missed, Skipped: s.Mark.Skipped, Paused: s.Paused,
	}
	if s.Skip {
		out.Overlap = "skip"
	}
	if s.Mark.Fired > 0 {
		out.LastAt = TimeToProto(s.Mark.At)
	}
	for _, next := range s.Next {
		out.Next = append(out.Next, TimeToProto(next.UnixNano()))
	}
	if f := s.Fault; f != nil {
		out.Fault = &pawlv1.ScheduleFault{
			Instant: TimeToProto(f.Instant.UnixNano()), Attempts: int32(f.Attempts), Since: TimeToProto(f.Since.UnixNano()), Message: "the run could not be started",
		}
		if refusal, ok := errors.AsType[*machine.Error](f.Err); ok {
			out.Fault.Reason, out.Fault.Message = refusal.Reason, refusal.Message
		}
	}
	return out
}
