package grpcapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/decisionlink"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// LinkConfig configures decision links. The zero value means that there are none.
type LinkConfig struct {
	// URL is the public base URL of the gateway.
	URL string
	// Expiry is how long a link is valid. 0 means that there is no time limit.
	Expiry time.Duration
	// Now returns the time that decides about the expiry of links. Default time.Now.
	Now func() time.Time
}

// newSigner returns the signer of decision links. It returns nil if there are no links.
func newSigner(c Config) *decisionlink.Signer {
	if c.Links.URL == "" || len(c.LinkKeys) == 0 {
		return nil
	}
	now := c.Links.Now
	if now == nil {
		now = time.Now
	}
	return decisionlink.NewSigner(c.Links.URL, c.Links.Expiry, c.LinkKeys, now)
}

// linkHandler returns the HTTP handler of decision links. It returns nil if there are no links.
func (s *Server) linkHandler(conn grpc.ClientConnInterface) http.Handler {
	if s.links == nil {
		return nil
	}
	return &decisionlink.Handler{
		Signer: s.links, Conn: conn,
		Enter: func(r *http.Request, l *decisionlink.Link) (context.Context, func(), error) {
			if err := s.auth.MayRead(l.By, l.Namespace, runtime.ScopeStepsApprove); err != nil {
				s.refusedLink(r, err)
				st, _ := apierror.Status(err)
				return nil, nil, st.Err()
			}
			token, done := s.auth.Lend(auth.ByLink(l.By, l.For, l.Namespace))
			return decisionlink.Bearer(r.Context(), auth.GatewayMetadata(r), token), done, nil
		},
		Refused: func(r *http.Request, err error) {
			s.refusedLink(r, &machine.Error{Code: machine.CodeUnauthenticated, Reason: "TOKEN_UNKNOWN", Message: err.Error()})
		},
	}
}

// refusedLink counts, logs and audits a request whose link is not authentic, or whose maker may no longer decide.
func (s *Server) refusedLink(r *http.Request, err error) {
	s.refused(auth.WithPeer(r.Context(), r.RemoteAddr), methodHTTP, nil, err)
}

// linkMaker makes decision links for one person. Each link is for a tool call of one namespace that waits for a
// person's decision.
type linkMaker struct {
	signer             *decisionlink.Signer
	namespace, decider string
	// requester is the stored name of the principal that requested the links.
	requester string
}

// linksFor checks that the caller may make links and returns a linkMaker for a person. For the person
// "" it returns nil.
func (s *Server) linksFor(call runtime.Call, person string) (*linkMaker, error) {
	switch {
	case person == "":
		return nil, nil //nolint:nilnil // none are asked for
	case s.links == nil:
		return nil, &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "LINKS_OFF", Field: "link_for",
			Message: "this server makes no decision links; the operator sets link_url and link_keys_file",
		}
	case !call.Principal.Scopes.Has(runtime.ScopeStepsApprove):
		return nil, &machine.Error{
			Code: machine.CodePermissionDenied, Reason: "SCOPE_MISSING", Field: "link_for", Allowed: runtime.ScopeStepsApprove.Names(),
			Message: "a link lets another person decide, so only a principal that may decide makes one",
		}
	}
	return &linkMaker{
		signer: s.links, namespace: cmp.Or(call.Namespace, runtime.DefaultNamespace), decider: person, requester: call.Principal.Name(),
	}, nil
}

// url returns the decision link for a held call (one that waits for approval), and the time when the link expires. If m
// is nil or the call has no valid digest, it returns "".
func (m *linkMaker) url(run string, step uint32, digest string, from time.Time) (string, time.Time) {
	d, ok := decisionlink.ParseDigest(digest)
	if m == nil || !ok {
		return "", time.Time{}
	}
	return m.signer.URL(decisionlink.Link{Namespace: m.namespace, RunID: run, Step: step, Digest: d, For: m.decider, By: m.requester}, from)
}

// webhookLinks returns the linkMaker for the messages of a webhook. It returns nil if the webhook has no links.
func (s *Server) webhookLinks(sub *machine.Subscription, namespace string) *linkMaker {
	if s.links == nil || sub.LinkFor == "" {
		return nil
	}
	return &linkMaker{signer: s.links, namespace: namespace, decider: sub.LinkFor, requester: sub.Owner}
}

// add adds the decision link to a held call (one that waits for approval) in a list. A call that is hidden from
// principals without the scope values:sensitive gets no link, because the person of the link does not have that
// scope.
func (m *linkMaker) add(ctx context.Context, s *controlService, namespace string, w *query.WaitingItem, out *pawlv1.Approval) error {
	if m == nil || out.GetCall() == nil {
		return nil
	}
	rules, err := s.runs.redactor.Rules(ctx, namespace, w.State)
	if err != nil {
		return err
	}
	seen := proto.CloneOf(out)
	rules.Apply(seen)
	url, expires := m.url(out.GetRunId(), out.GetCall().GetStep(), seen.GetCall().GetApproval().GetDigest(), m.signer.Now())
	if out.Link = url; url != "" && !expires.IsZero() {
		out.LinkExpires = timestamppb.New(expires)
	}
	return nil
}
