package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// runFields are the fields of requests that contain a run id.
var runFields = []protoreflect.Name{"run_id", "other_run_id", "parent_run_id"}

// idPrefix matches the beginning of a ULID that is not a complete ULID.
var idPrefix = regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{0,24}$`)

// runIDs lets every command accept a unique prefix of a run's id. It replaces the prefix by the whole id
// before a request is sent.
type runIDs struct{ namespace string }

// unary is the client interceptor for calls.
func (r *runIDs) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	// The call that looks up the id passes this interceptor, too. It has the prefix in another field, which is not
	// changed.
	if err := r.complete(ctx, conn, req); err != nil {
		return err
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}

// stream is the client interceptor for streams.
func (r *runIDs) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, conn, method, opts...)
	return &completing{ClientStream: s, ids: r, conn: conn}, err
}

// completing is a client stream that replaces prefixes of run ids in the requests that it sends.
type completing struct {
	grpc.ClientStream

	ids  *runIDs
	conn *grpc.ClientConn
}

// SendMsg implements grpc.ClientStream.
func (s *completing) SendMsg(m any) error {
	if err := s.ids.complete(s.Context(), s.conn, m); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// complete replaces the prefixes in a request.
func (r *runIDs) complete(ctx context.Context, conn *grpc.ClientConn, req any) error {
	msg, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	m := msg.ProtoReflect()
	for _, name := range runFields {
		field := m.Descriptor().Fields().ByName(name)
		if field == nil {
			continue
		}
		given := strings.ToUpper(m.Get(field).String())
		if !idPrefix.MatchString(given) {
			continue
		}
		id, err := r.only(ctx, conn, given)
		if err != nil {
			return err
		}
		m.Set(field, protoreflect.ValueOfString(id))
	}
	return nil
}

// only returns the id of the run with the given prefix. It returns an error if there is no such run or more than one.
func (r *runIDs) only(ctx context.Context, conn *grpc.ClientConn, prefix string) (string, error) {
	const shown = 5
	page, err := pawlv1.NewRunServiceClient(conn).ListRuns(ctx, &pawlv1.ListRunsRequest{
		Namespace: r.namespace, Filter: &pawlv1.RunFilter{RunIdPrefix: prefix}, PageSize: shown,
	})
	if err != nil {
		return "", err
	}
	runs := page.GetRuns()
	switch len(runs) {
	case 0:
		return "", &output.Exit{Code: output.ExitFault, Err: fmt.Errorf("no run's id begins with %s", prefix)}
	case 1:
		return runs[0].GetRunId(), nil
	}
	var ids []string
	for _, run := range runs {
		ids = append(ids, run.GetRunId())
	}
	if page.GetNextPageToken() != "" {
		ids = append(ids, "…")
	}
	return "", output.Usage(fmt.Errorf("%s is the beginning of more than one run's id: %s", prefix, strings.Join(ids, ", ")))
}
