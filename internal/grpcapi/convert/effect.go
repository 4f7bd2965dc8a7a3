package convert

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func aboutToProto(a *machine.About) *pawlv1.StepAbout {
	if a == nil {
		return nil
	}
	return &pawlv1.StepAbout{Role: pawlv1.StepRole(a.Role), Step: a.Step, Tool: a.Tool}
}

func uncompensatedToProto(list []machine.UncompensatedEffect) []*pawlv1.UncompensatedEffect {
	var out []*pawlv1.UncompensatedEffect
	for _, s := range list {
		out = append(out, &pawlv1.UncompensatedEffect{Step: s.Step, Tool: s.Tool, By: s.By, Code: s.Code})
	}
	return out
}

func outcomeUnknownToProto(b *machine.StepOutcomeUnknown) *pawlv1.StepOutcomeUnknown {
	return &pawlv1.StepOutcomeUnknown{
		Step: b.Step, Tool: b.Tool, Attempt: int32(b.Attempt), Error: faultToProto(b.Error), Worker: b.Worker, By: b.By, Kind: kindToProto(b.Kind, false),
	}
}

func compensationToProto(types MediaTypes, b *machine.CompensationStarted) *pawlv1.CompensationStarted {
	return &pawlv1.CompensationStarted{
		Status: pawlv1.RunStatus(b.Status), Reason: b.Reason, Event: b.Event, IntendedState: b.Intended,
		Redirects: redirectsToProto(b.Redirects), Effects: b.Effects, Pending: b.Pending, ArtifactsWritten: types.writesToProto(b.Artifacts),
	}
}
