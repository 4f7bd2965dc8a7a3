package decisionlink

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// maxForm limits the body of a decision, in bytes.
const maxForm = 16 << 10

// Handler serves decision links. GET shows the tool call that waits for approval, and POST decides about it. Every
// call that the handler makes passes the server's interceptors, with the rights, limits and audit lines of the link's
// principal. Safe for concurrent use.
type Handler struct {
	Signer *Signer
	// Conn is an in-process connection to the server.
	Conn grpc.ClientConnInterface
	// Enter returns a context in which calls have the rights of the link's person: to read runs and to decide in the
	// namespace of the link. The handler calls leave when it no longer needs the context. The error is a gRPC status if
	// the principal that made the link has lost its right to decide.
	Enter func(r *http.Request, l *Link) (ctx context.Context, leave func(), err error)
	// Refused is called for a request whose token is not authentic.
	Refused func(r *http.Request, err error)
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		write(w, r, http.StatusMethodNotAllowed, page{Title: "Not a decision", Text: "A decision link takes GET and POST."})
		return
	}
	l, err := h.Signer.Read(strings.TrimPrefix(r.URL.Path, Path))
	if err != nil {
		h.Refused(r, err)
		write(w, r, http.StatusForbidden, page{
			Title: "This link is not valid",
			Text:  "It is incomplete, was changed, or its key was replaced. Copy the whole link from the message, or ask for a new one.",
		})
		return
	}
	if l.Expired(h.Signer.now()) {
		write(w, r, http.StatusGone, page{
			Title: "This link has expired",
			Text:  "It ended on " + formatTime(time.Unix(l.Expires, 0)) + ". Nothing was decided with it now. Ask for a new link.",
		})
		return
	}
	ctx, leave, err := h.Enter(r, &l)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	defer leave()
	if r.Method == http.MethodPost {
		h.decide(ctx, w, r, &l)
		return
	}
	h.show(ctx, w, r, &l, http.StatusOK)
}

// show writes a page with the held call, which waits for approval. If the call no longer waits, the page contains the
// decision instead, and the HTTP status is the value of the parameter decided. If another call of the step waits, or if
// there is no decision, the page says so, and the status is 410.
func (h *Handler) show(ctx context.Context, w http.ResponseWriter, r *http.Request, l *Link, decided int) {
	waiting, err := h.waiting(ctx, l)
	if err == nil && waiting == nil {
		h.showDecided(ctx, w, r, l, decided)
		return
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	call := waiting.GetCall()
	if call.GetApproval().GetDigest() != digestText(l) {
		write(w, r, http.StatusGone, page{
			Title: "Another call waits now",
			Text:  "The call of this link is not the one that waits for a decision. Ask for a new link.",
		})
		return
	}
	write(w, r, http.StatusOK, page{
		Title: "Approve this call of " + call.GetTool() + "?",
		Text:  "The call waits for your decision. It is made with exactly these arguments, or not at all.",
		Ask:   true, Call: shown(l, waiting),
	})
}

// shown returns the data of the page with a held call.
func shown(l *Link, a *pawlv1.Approval) *shownCall {
	call, then := a.GetCall(), "the call is denied"
	if a.GetOnTimeout() == pawlv1.ApprovalTimeout_APPROVAL_TIMEOUT_ESCALATE {
		then = "the run ends"
	}
	s := &shownCall{
		Tool: call.GetTool(), Arguments: Arguments(call.GetPayloadJson()), Run: a.GetRunId(), Step: call.GetStep(),
		Pack: a.GetPackId() + "@" + a.GetPackVersion(), State: a.GetState(), Digest: digestText(l), Person: l.For,
		Since: formatTime(a.GetSince().AsTime()), Then: then, ConditionError: a.GetConditionError(),
	}
	if call.GetDeadline() != nil {
		s.Until = formatTime(call.GetDeadline().AsTime())
	}
	if l.Expires != 0 {
		s.LinkEnds = formatTime(time.Unix(l.Expires, 0))
	}
	return s
}

// showDecided writes a page with the last decision about the step. If there is none, the page says so.
func (h *Handler) showDecided(ctx context.Context, w http.ResponseWriter, r *http.Request, l *Link, code int) {
	record, err := h.decided(ctx, l)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if record == nil {
		write(w, r, http.StatusGone, page{
			Title: "This call no longer waits",
			Text:  "The run has ended or gone on without a decision. There is nothing to decide.",
		})
		return
	}
	d := record.GetStepDecided()
	text := fmt.Sprintf("%s decided about this call of %s on %s. The decision stands: %s.",
		record.GetPrincipal(), d.GetTool(), formatTime(record.GetAt().AsTime()), verdicts[d.GetVerdict()])
	if d.GetVerdict() == pawlv1.StepVerdict_STEP_VERDICT_TIMED_OUT {
		text = "No decision came in time. It was due by " + formatTime(record.GetAt().AsTime()) + "."
	}
	if d.GetReason() != "" {
		text += " Reason: " + d.GetReason()
	}
	write(w, r, code, page{Title: "Already decided: " + verdicts[d.GetVerdict()], Text: text})
}

// verdicts are the words that the page uses for each decision.
var verdicts = map[pawlv1.StepVerdict]string{
	pawlv1.StepVerdict_STEP_VERDICT_APPROVED:  "approved",
	pawlv1.StepVerdict_STEP_VERDICT_DENIED:    "denied",
	pawlv1.StepVerdict_STEP_VERDICT_EDITED:    "approved with other arguments",
	pawlv1.StepVerdict_STEP_VERDICT_TIMED_OUT: "denied, no decision came in time",
	pawlv1.StepVerdict_STEP_VERDICT_EXPIRED:   "approved, and not made in time",
}

// buttons maps the buttons of the form to decisions.
var buttons = map[string]pawlv1.StepDecision{
	"approve": pawlv1.StepDecision_STEP_DECISION_APPROVE,
	"deny":    pawlv1.StepDecision_STEP_DECISION_DENY,
}

// decide makes the decision that a submitted form contains.
func (h *Handler) decide(ctx context.Context, w http.ResponseWriter, r *http.Request, l *Link) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	// Only the body is used, because a link with ?decision=approve must not decide.
	if err := r.ParseForm(); err != nil || buttons[r.PostForm.Get("decision")] == 0 || len(r.PostForm["decision"]) != 1 {
		write(w, r, http.StatusBadRequest, page{Title: "No decision", Text: "The form has to say approve or deny. Open the link again and press a button."})
		return
	}
	got, err := pawlv1.NewControlServiceClient(h.Conn).DecideStep(ctx, &pawlv1.DecideStepRequest{
		Namespace: l.Namespace, RunId: l.RunID, Step: l.Step, Digest: digestText(l),
		Decision: buttons[r.PostForm.Get("decision")], Reason: r.PostForm.Get("reason"),
	})
	switch reasonOf(err) {
	case "ALREADY_DECIDED", "NOTHING_TO_DECIDE", "RUN_TERMINAL", "DIGEST_MISMATCH":
		h.show(ctx, w, r, l, http.StatusConflict)
		return
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	d := got.GetDecided()
	verdict := verdicts[d.GetStepDecided().GetVerdict()]
	write(w, r, http.StatusOK, page{
		Title: "Decided: " + verdict,
		Text:  fmt.Sprintf("The call of %s is %s. The record of the run names %s. You can close this page.", d.GetStepDecided().GetTool(), verdict, d.GetPrincipal()),
	})
}

// waiting reads the tool call of the link while it waits for approval. It returns nil if the call no longer waits.
func (h *Handler) waiting(ctx context.Context, l *Link) (*pawlv1.Approval, error) {
	req := &pawlv1.ListApprovalsRequest{Namespace: l.Namespace, RunId: l.RunID, PageSize: 1000}
	for {
		got, err := pawlv1.NewControlServiceClient(h.Conn).ListApprovals(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, a := range got.GetApprovals() {
			if a.GetCall() != nil && a.GetCall().GetStep() == l.Step {
				return a, nil
			}
		}
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			return nil, nil //nolint:nilnil // it does not wait
		}
	}
}

// decided reads the last decision about the link's step. It returns nil if there is none.
func (h *Handler) decided(ctx context.Context, l *Link) (last *pawlv1.Record, err error) {
	req := &pawlv1.ListTransitionsRequest{
		Namespace: l.Namespace, RunId: l.RunID, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED}, PageSize: 1000,
	}
	for {
		got, err := pawlv1.NewRunServiceClient(h.Conn).ListTransitions(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, record := range got.GetRecords() {
			if record.GetStepDecided().GetStep() == l.Step {
				last = record
			}
		}
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			return last, nil
		}
	}
}

// fail writes a page for the error of a call.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, p := http.StatusServiceUnavailable, page{Title: "Try again later", Text: "The sidecar cannot answer now. Nothing was decided. Open the link again in a moment."}
	switch st := status.Convert(err); st.Code() {
	case codes.PermissionDenied, codes.Unauthenticated:
		code, p = http.StatusForbidden, page{Title: "You cannot decide about this call", Text: refusals[reasonOf(err)]}
		if p.Text == "" {
			p.Text = st.Message()
		}
	case codes.NotFound:
		code, p = http.StatusGone, page{Title: "This run does not exist", Text: "The run was deleted, or its namespace is no longer served. There is nothing to decide."}
	case codes.ResourceExhausted:
		w.Header().Set("Retry-After", "1")
		code, p = http.StatusTooManyRequests, page{Title: "Too many requests", Text: "Nothing was decided. Open the link again in a moment."}
	case codes.InvalidArgument:
		code, p = http.StatusBadRequest, page{Title: "No decision", Text: st.Message()}
	}
	write(w, r, code, p)
}

// refusals maps reasons of errors to the sentences on the page.
var refusals = map[string]string{
	"APPROVER_IS_STARTER": "The principal that made this link started the run, and the pack does not let that principal decide. Ask for a link of another principal.",
	"OWNER_LOST_RIGHT":    "The principal that made this link may no longer decide about calls.",
	"SCOPE_MISSING":       "The call has sensitive arguments, which links do not show. Decide with pawl approvals.",
}

// digestText returns the digest in the form that the API uses.
func digestText(l *Link) string { return "sha256:" + hex.EncodeToString(l.Digest[:]) }

// ParseDigest parses the digest of a call in the form that the API uses. It returns false if the text
// does not have this form.
func ParseDigest(text string) (digest [32]byte, ok bool) {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, "sha256:"))
	if err != nil || len(raw) != len(digest) {
		return digest, false
	}
	return [32]byte(raw), true
}

func reasonOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}

// Bearer returns a context for calls with a bearer token and metadata.
func Bearer(ctx context.Context, md metadata.MD, token string) context.Context {
	return metadata.NewOutgoingContext(ctx, metadata.Join(md, metadata.Pairs("authorization", "Bearer "+token)))
}
