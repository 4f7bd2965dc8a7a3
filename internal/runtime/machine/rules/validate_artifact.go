package rules

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CheckType checks a value against its media type. JSON must parse, text must be valid UTF-8, and other
// values may be any bytes. If the caller specified a form or type, it must match the media type.
func CheckType(w *machine.ArtifactWrite, mediaType string) error {
	form := machine.FormOf(mediaType)
	refuse := func(format string, args ...any) error {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "ARTIFACT_TYPE", Field: Field(w.Name), Allowed: []string{mediaType},
			Message: fmt.Sprintf("declared %s, but the value ", mediaType) + fmt.Sprintf(format, args...),
		}
	}
	switch {
	case w.Type != "" && w.Type != mediaType:
		return refuse("is said to be %s", w.Type)
	case w.Form != machine.FormUnset && w.Form != form:
		return refuse("was given as %s; want it as %s", w.Form, form)
	case form == machine.FormJSON && !json.Valid(w.Value), form == machine.FormText && !utf8.Valid(w.Value):
		return refuse("is not %s", map[machine.Form]string{machine.FormJSON: "JSON", machine.FormText: "UTF-8 text"}[form])
	}
	return nil
}

// Field returns the path of an artifact for the field of an error.
func Field(artifact string) string { return "artifacts[" + artifact + "]" }
