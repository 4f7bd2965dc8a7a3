package apierror

import (
	"strings"

	validatepb "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// InvalidRequest is the reason of every request that violates a constraint of the proto files.
const InvalidRequest = "INVALID_REQUEST"

// MaxViolations limits the fields that one error names.
const MaxViolations = 8

// violationStatus converts a status of the validation interceptor to the form that all other errors
// have. It returns other statuses unchanged.
func violationStatus(st *status.Status) *status.Status {
	for _, detail := range st.Details() {
		if violations, ok := detail.(*validatepb.Violations); ok {
			return Constraint(st, violations.GetViolations())
		}
	}
	return st
}

// Constraint returns the status of a request that violates constraints of the proto files.
func Constraint(st *status.Status, violations []*validatepb.Violation) *status.Status {
	bad := &errdetails.BadRequest{}
	var lines []string
	for _, v := range violations[:min(len(violations), MaxViolations)] {
		field, text := protovalidate.FieldPathString(v.GetField()), violationText(v)
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: field, Description: Clip(text, MaxDescriptionBytes/2), Reason: InvalidRequest,
		})
		lines = append(lines, field+": "+text)
	}
	text := Clip(InvalidRequest+" "+strings.Join(lines, "; "), maxMessageBytes)
	info := &errdetails.ErrorInfo{Domain: Domain, Reason: InvalidRequest, Metadata: map[string]string{
		"field": bad.FieldViolations[0].GetField(),
	}}
	if allowed := enumNames(violations[0]); allowed != nil {
		info.Metadata["allowed"] = strings.Join(allowed, ", ")
	}
	return With(status.New(st.Code(), text), info, bad)
}

// violationText returns the message for one violated constraint. For an enum it lists the allowed names, because the
// numbers mean little to readers. For a name with a pattern it has a text of its own. All other messages are those of
// the validation library.
func violationText(v *validatepb.Violation) string {
	if allowed := enumNames(v); allowed != nil {
		return "must be one of " + strings.Join(allowed, ", ")
	}
	if path := v.GetField().GetElements(); v.GetRuleId() == "string.pattern" && len(path) > 0 {
		if text := patternTexts[path[len(path)-1].GetFieldName()]; text != "" {
			return text
		}
	}
	return v.GetMessage()
}

// patternTexts describes the patterns of fields in words.
var patternTexts = map[string]string{
	"namespace":     "must begin with a-z and go on with up to 62 of a-z, 0-9 and -",
	"run_id":        "must be the id of a run: 26 characters of 0-9 and A-Z without I, L, O and U (a ULID)",
	"parent_run_id": "must be the id of a run: 26 characters of 0-9 and A-Z without I, L, O and U (a ULID)",
}

// enumNames lists the allowed values of an enum field. It returns nil for other fields.
func enumNames(v *validatepb.Violation) []string {
	if !strings.HasPrefix(v.GetRuleId(), "enum.") {
		return nil
	}
	for _, request := range Requests() {
		if enum := enumAt(request, v.GetField().GetElements()); enum != nil {
			var names []string
			for i := range enum.Values().Len() {
				if value := enum.Values().Get(i); value.Number() != 0 {
					names = append(names, string(value.Name()))
				}
			}
			return names
		}
	}
	return nil
}

// enumAt follows a path of fields to an enum. It returns nil if the path does not lead to an enum.
func enumAt(m protoreflect.MessageDescriptor, path []*validatepb.FieldPathElement) protoreflect.EnumDescriptor {
	for i, element := range path {
		field := m.Fields().ByName(protoreflect.Name(element.GetFieldName()))
		switch {
		case field == nil:
			return nil
		case i == len(path)-1:
			return field.Enum()
		case field.Message() == nil:
			return nil
		}
		m = field.Message()
	}
	return nil
}
