package convert

import (
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
)

// ForkFromProto converts a ForkRun request.
func ForkFromProto(c Caller, req *pawlv1.ForkRunRequest) (timetravel.ForkRequest, error) {
	variables, err := compactObject("variables_json", req.GetVariablesJson())
	return timetravel.ForkRequest{
		RunRef: c.Run(req), AtSeq: req.GetAtSeq(), Pack: req.GetPack(), Variables: variables,
		Artifacts: writesFromProto(req.GetArtifacts()), Labels: labelsFromProto(req.GetLabels()),
		Execution: machine.Execution(req.GetExecution()), MaxSteps: int(req.GetMaxSteps()),
		MaxWallTime: time.Duration(req.GetMaxWallTimeSec()) * time.Second, ReuseSteps: req.ReuseSteps, RequestID: req.GetRequestId(),
		Traceparent: c.Traceparent,
	}, err
}

// ErasureToProto converts the erasure of a run. It returns nil if the run was not erased.
func ErasureToProto(e *machine.Erased) *pawlv1.Erasure {
	if e == nil {
		return nil
	}
	return &pawlv1.Erasure{At: TimeToProto(e.At), By: e.By, Reason: e.Why}
}

// ErasedToProto converts what remains of an erased run.
func ErasedToProto(s *machine.State, duplicate bool) *pawlv1.EraseRunResponse {
	if s == nil {
		return nil
	}
	return &pawlv1.EraseRunResponse{
		Erasure: ErasureToProto(s.Erased), Status: pawlv1.RunStatus(s.Status), Records: s.Seq, Hash: s.PrevHash[:], Duplicate: duplicate,
	}
}

// DeletedToProto converts what remains of a deleted run.
func DeletedToProto(d *machine.Deleted, duplicate bool) *pawlv1.DeleteRunResponse {
	return &pawlv1.DeleteRunResponse{
		DeletedAt: TimeToProto(d.At), DeletedBy: d.By, Rule: d.Why, Status: pawlv1.RunStatus(d.Status),
		Records: d.Records, Hash: d.Hash[:], Duplicate: duplicate,
	}
}

// DiffFromProto converts a DiffRuns request.
func DiffFromProto(c Caller, req *pawlv1.DiffRunsRequest) timetravel.DiffRequest {
	return timetravel.DiffRequest{RunRef: c.Run(req), Seq: req.GetSeq(), Other: req.GetOtherRunId(), OtherSeq: req.GetOtherSeq()}
}

// DiffToProto converts the differences of two runs.
func DiffToProto(d *timetravel.Diff) *pawlv1.DiffRunsResponse {
	out := &pawlv1.DiffRunsResponse{
		Base: pointToProto(&d.Base), Other: pointToProto(&d.Other), CommonPath: int32(d.Common),
		BasePath: pathToProto(d.BasePath), OtherPath: pathToProto(d.OtherPath),
		Visits: countChangesToProto(d.Visits), Edges: countChangesToProto(d.Edges), Budgets: countChangesToProto(d.Budgets),
		Variables: changesToProto(d.Variables), Truncated: d.Truncated,
	}
	for i := range d.Artifacts {
		a := &d.Artifacts[i]
		out.Artifacts = append(out.Artifacts, &pawlv1.ArtifactChange{
			Name: a.Name, Kind: pawlv1.ChangeKind(a.Kind), MediaType: a.Type, BaseBytes: int64(a.BaseBytes), OtherBytes: int64(a.OtherBytes),
			Json: changesToProto(a.JSON), Text: a.Text, Truncated: a.Truncated,
		})
	}
	return out
}

func pointToProto(p *timetravel.RunPoint) *pawlv1.RunPoint {
	s := p.State
	return &pawlv1.RunPoint{
		RunId: s.RunID, Seq: s.Seq, Pack: PackRefToProto(s.PackID, s.PackVersion, s.Digest), State: s.Current,
		Status: pawlv1.RunStatus(s.Status), Reason: s.Reason, Messages: int32(p.Messages),
	}
}

func pathToProto(path []timetravel.PathStep) []*pawlv1.PathStep {
	var out []*pawlv1.PathStep
	for _, step := range path {
		out = append(out, &pawlv1.PathStep{RunId: step.RunID, Seq: step.Seq, Event: step.Event, State: step.State})
	}
	return out
}

func countChangesToProto(in []machine.CountChange) []*pawlv1.CountChange {
	var out []*pawlv1.CountChange
	for _, c := range in {
		out = append(out, &pawlv1.CountChange{Name: c.Name, Base: c.Base, Other: c.Other})
	}
	return out
}

func changesToProto(in []timetravel.ValueChange) []*pawlv1.ValueChange {
	var out []*pawlv1.ValueChange
	for _, c := range in {
		out = append(out, &pawlv1.ValueChange{Path: c.Path, Kind: pawlv1.ChangeKind(c.Kind), BaseJson: string(c.Base), OtherJson: string(c.Other)})
	}
	return out
}

func forkedToProto(f *machine.Forked) *pawlv1.ForkedFrom {
	if f == nil {
		return nil
	}
	return &pawlv1.ForkedFrom{RunId: f.RunID, Seq: f.Seq, Visits: int32(f.Visits), Steps: f.Steps}
}

func originToProto(types MediaTypes, o *machine.Origin) *pawlv1.Origin {
	out := &pawlv1.Origin{RunId: o.RunID, Seq: o.Seq, ArtifactsWritten: types.writesToProto(o.Artifacts), Steps: uint32(len(o.Steps))}
	if o.State != nil {
		out.State = o.State.Current
	}
	return out
}
