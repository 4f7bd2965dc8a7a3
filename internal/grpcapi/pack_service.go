package grpcapi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
)

// packService is pawl.v1.PackService.
type packService struct {
	pawlv1.UnimplementedPackServiceServer
	packs *packs.Registry
}

// ValidatePack implements pawl.v1.PackService.
func (s *packService) ValidatePack(ctx context.Context, in *pawlv1.ValidatePackRequest) (*pawlv1.ValidatePackResponse, error) {
	got, err := s.packs.ValidatePack(packs.RegisterRequest{
		Call: callOf(ctx, in.GetNamespace()), Document: in.GetContent(), Strict: in.GetStrictSchema(),
		RequireBounded: in.GetRequireBounded(),
	})
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ValidatePackResponse{Ok: got.Pack != nil, Diagnostics: convert.DiagnosticsToProto(got.Diagnostics)}
	if got.Pack != nil {
		out.Id, out.Version, out.Digest = got.Pack.ID, got.Pack.Version, got.Pack.Digest
		out.Termination, out.AgentTerminations = convert.TerminationsToProto(got.Pack)
	}
	return out, nil
}

// RegisterPack implements pawl.v1.PackService.
func (s *packService) RegisterPack(ctx context.Context, in *pawlv1.RegisterPackRequest) (*pawlv1.RegisterPackResponse, error) {
	req := packs.RegisterRequest{
		Call: callOf(ctx, in.GetNamespace()), Document: in.GetContent(), Strict: in.GetStrictSchema(),
		RequireBounded: in.GetRequireBounded(),
		Move:           in.GetMoveVersion(), KeepDefault: in.MakeDefault != nil && !in.GetMakeDefault(),
	}
	got, err := s.packs.RegisterPack(ctx, req)
	if err != nil {
		return nil, packRefused(err, got.Diagnostics)
	}
	out := &pawlv1.RegisterPackResponse{
		Pack: convert.PackToProto(&got.Row, got.Pack), Diagnostics: convert.DiagnosticsToProto(got.Diagnostics), Duplicate: got.Duplicate,
	}
	out.Termination, out.AgentTerminations = convert.TerminationsToProto(got.Pack)
	return out, nil
}

// GetPack implements pawl.v1.PackService.
func (s *packService) GetPack(ctx context.Context, in *pawlv1.GetPackRequest) (*pawlv1.GetPackResponse, error) {
	got, err := s.find(ctx, in.GetNamespace(), in.GetPack())
	if err != nil {
		return nil, err
	}
	out := &pawlv1.GetPackResponse{Pack: convert.PackToProto(&got.Row, got.Pack), Diagnostics: convert.DiagnosticsToProto(got.Diagnostics), Tools: convert.ToolsToProto(got.Pack)}
	out.Termination, out.AgentTerminations = convert.TerminationsToProto(got.Pack)
	if in.GetIncludeContent() {
		out.Content = got.Row.Source
	}
	return out, nil
}

// ListPacks implements pawl.v1.PackService.
func (s *packService) ListPacks(ctx context.Context, in *pawlv1.ListPacksRequest) (*pawlv1.ListPacksResponse, error) {
	call := callOf(ctx, in.GetNamespace())
	position, err := convert.PagePosition(in)
	if err != nil {
		return nil, err
	}
	page, err := s.packs.ListPacks(ctx, call, position, int(in.GetPageSize()))
	if err != nil {
		return nil, err
	}
	out := &pawlv1.ListPacksResponse{NextPageToken: convert.PageToken(in, page.NextPage)}
	for i := range page.Packs {
		row := &page.Packs[i]
		content, err := s.packs.PackContent(ctx, call.Namespace, row.Digest)
		if err != nil {
			return nil, err
		}
		out.Packs = append(out.Packs, convert.PackToProto(row, content))
	}
	return out, nil
}

// GetPackGraph implements pawl.v1.PackService.
func (s *packService) GetPackGraph(ctx context.Context, in *pawlv1.GetPackGraphRequest) (*pawlv1.GetPackGraphResponse, error) {
	got, err := s.find(ctx, in.GetNamespace(), in.GetPack())
	if err != nil {
		return nil, err
	}
	graph, err := got.Pack.Compile(pack.Entry{Agent: in.GetAgent()})
	if err != nil {
		return nil, packcache.EntryRefused(err)
	}
	return convert.GraphToProto(got.Pack, graph), nil
}

// find returns a registered pack. It returns an error if the current rules no longer accept the pack.
func (s *packService) find(ctx context.Context, namespace, ref string) (packs.PackAnswer, error) {
	got, err := s.packs.GetPack(ctx, callOf(ctx, namespace), ref)
	if err == nil && got.Pack == nil {
		err = fmt.Errorf("stored pack %s is not accepted any more: %v", got.Row.Digest, got.Diagnostics)
	}
	return got, err
}

// packRefused adds the diagnostics to the error of a refused pack. It adds one field violation for each diagnostic that
// is an error, as many as the error has space for.
func packRefused(err error, found []pack.Diagnostic) error {
	var refusal *machine.Error
	if !errors.As(err, &refusal) || !pack.HasErrors(found) {
		return err
	}
	refusal.Field = ""
	bad := &errdetails.BadRequest{}
	for _, d := range found {
		if d.Severity == pack.SeverityError && len(bad.FieldViolations) < apierror.MaxViolations {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
				Field: apierror.Clip("content"+d.Pointer, apierror.MaxDescriptionBytes/2), Reason: d.Code,
				Description: apierror.Clip(fmt.Sprintf("%d:%d: %s", d.Line, d.Column, d.Message), apierror.MaxDescriptionBytes/2),
			})
		}
	}
	return apierror.With(apierror.Refused(refusal), bad).Err()
}
