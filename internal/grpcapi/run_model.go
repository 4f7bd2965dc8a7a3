package grpcapi

import (
	"context"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// RequestModel implements pawl.v1.RunService.
func (s *runService) RequestModel(ctx context.Context, in *pawlv1.RequestModelRequest) (*pawlv1.RequestModelResponse, error) {
	return handleUnary(ctx, s, in, convert.RequestModelFromProto, s.admission.RequestModel, convert.ModelRequested)
}

// AnswerModel implements pawl.v1.RunService.
func (s *runService) AnswerModel(ctx context.Context, in *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	var pause time.Duration
	out, err := handleUnary(ctx, s, in, convert.AnswerModelFromProto, func(ctx context.Context, req runtime.Request) (answer runtime.Answer, err error) {
		answer, pause, err = s.admission.AnswerModel(ctx, req, convert.ProviderLimitsFromProto(in.GetProviderLimits()))
		return answer, err
	}, convert.ModelAnswered)
	return convert.ModelPaused(out, pause), err
}

// UpdateModelCall implements pawl.v1.RunService.
func (s *runService) UpdateModelCall(ctx context.Context, in *pawlv1.UpdateModelCallRequest) (*pawlv1.UpdateModelCallResponse, error) {
	return handleUnary(ctx, s, in, convert.UpdateModelCallFromProto, s.engine.Apply, convert.ModelCallUpdated)
}

// GetModelStep implements pawl.v1.RunService.
func (s *runService) GetModelStep(ctx context.Context, in *pawlv1.GetModelStepRequest) (*pawlv1.GetModelStepResponse, error) {
	ref := refOf(ctx, in)
	view, err := s.views.ShowModel(ctx, ref, in.GetStep())
	if err != nil {
		return nil, err
	}
	out := convert.ModelShown(&view)
	return out, s.redactor.Hide(ctx, ref.Call, view.Run, out)
}
