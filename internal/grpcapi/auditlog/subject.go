package auditlog

import (
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// subject is the part of a line that describes a request: the namespace, the resource, the id that the
// caller chose for the request, and the principal for which the caller claims to act.
type subject struct{ namespace, resource, id, claims string }

// about returns the names and ids of a request. It never returns values.
func about(m any) subject {
	var s subject
	switch in := m.(type) {
	case interface{ GetNamespace() string }:
		s.namespace = clip(in.GetNamespace())
	case interface{ GetTenant() string }:
		namespace, _ := validate.SplitTenant(in.GetTenant())
		s.namespace = clip(namespace)
	}
	s.resource, s.id = clip(resourceOf(m)), clip(idOf(m))
	if in, ok := m.(*a2apb.SendMessageRequest); ok {
		s.claims = clip(protocol.AnswererOf(in.GetMessage()))
	}
	return s
}

func resourceOf(m any) string {
	switch in := m.(type) {
	case interface{ GetRunId() string }:
		return in.GetRunId()
	case interface{ GetRun() *pawlv1.Run }:
		return in.GetRun().GetRunId()
	case interface{ GetWebhookId() string }:
		return in.GetWebhookId()
	case interface{ GetConsumer() string }:
		return in.GetConsumer()
	case interface{ GetRef() *pawlv1.DeliveryRef }:
		return in.GetRef().GetId()
	case *pawlv1.RegisterPackResponse:
		return in.GetPack().GetDigest()
	case interface{ GetUploadId() string }:
		return in.GetUploadId()
	case *pawlv1.WorkRequest:
		return in.GetRegister().GetWorkerId()
	case *a2apb.SendMessageRequest:
		return in.GetMessage().GetTaskId()
	case interface{ GetTaskId() string }:
		return in.GetTaskId()
	case *a2apb.CancelTaskRequest:
		return in.GetId()
	}
	return ""
}

func idOf(m any) string {
	switch in := m.(type) {
	case interface{ GetRequestId() string }:
		return in.GetRequestId()
	case interface{ GetEventId() string }:
		return in.GetEventId()
	case interface{ GetMessageId() string }:
		return in.GetMessageId()
	case interface{ GetWriteId() string }:
		return in.GetWriteId()
	case *a2apb.SendMessageRequest:
		return in.GetMessage().GetMessageId()
	}
	return ""
}

func clip(s string) string { return apierror.Clip(s, maxTextBytes) }
