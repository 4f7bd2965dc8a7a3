package rules

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func TestFoldArtifact(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		mediaType string
		mode      machine.Mode
		values    []string
		want      string
	}{
		{"nothing", "text/plain", machine.Append, nil, ""},
		{"replace", "text/plain", machine.Replace, []string{"a", "b"}, "b"},
		{"text", "text/plain; charset=utf-8", machine.Append, []string{"a", "", "b"}, "a\n\nb"},
		{"bytes", "image/png", machine.Append, []string{"a", "b"}, "ab"},
		{"one element", "application/json", machine.Append, []string{`{"a":[1]}`}, `[{"a":[1]}]`},
		{"arrays", "application/json", machine.Append, []string{`[1,2]`, `[]`, `3`, ` [ 4 ] `, `[[5]]`}, `[1,2,3,4,[5]]`},
		{"empty arrays", "application/problem+json", machine.Append, []string{`[]`, `[ ]`}, `[]`},
		{"scalars", "APPLICATION/JSON", machine.Append, []string{`null`, `"[x]"`, `true`}, `[null,"[x]",true]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var values [][]byte
			for _, v := range tt.values {
				values = append(values, []byte(v))
			}
			if got := string(machine.FoldArtifact(tt.mediaType, tt.mode, values)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestFormOf(t *testing.T) {
	t.Parallel()
	for mediaType, want := range map[string]machine.Form{
		"application/json": machine.FormJSON, "Application/JSON; charset=utf-8": machine.FormJSON, "application/ld+json": machine.FormJSON,
		"text/plain": machine.FormText, "TEXT/markdown ; x=y": machine.FormText, "application/jsonl": machine.FormBytes, "image/png": machine.FormBytes, "": machine.FormBytes,
	} {
		if got := machine.FormOf(mediaType); got != want {
			t.Errorf("%q is %v, want %v", mediaType, got, want)
		}
	}
	for form, want := range map[machine.Form]string{machine.FormUnset: "unset", machine.FormBytes: "data", machine.FormJSON: "json", machine.FormText: "text", machine.Form(99): "unknown"} {
		if got := form.String(); got != want {
			t.Errorf("form %d is called %q, want %q", form, got, want)
		}
	}
}

// TestArtifactClaims: what a caller says of a value must agree with the
// declaration.
func TestArtifactClaims(t *testing.T) {
	t.Parallel()
	tests := []struct {
		write machine.ArtifactWrite
		ok    bool
	}{
		{machine.ArtifactWrite{Name: "commit_sha", Value: []byte("1"), Form: machine.FormText}, true},
		{machine.ArtifactWrite{Name: "commit_sha", Value: []byte("1"), Form: machine.FormJSON}, false},
		{machine.ArtifactWrite{Name: "commit_sha", Value: []byte("1"), Type: "text/plain"}, true},
		{machine.ArtifactWrite{Name: "commit_sha", Value: []byte("1"), Type: "text/html"}, false},
		{machine.ArtifactWrite{Name: "test_report", Value: []byte("1"), Form: machine.FormBytes}, false},
		{machine.ArtifactWrite{Name: "test_report", Value: []byte("1"), Form: machine.FormJSON, Type: "application/json"}, true},
	}
	for _, tt := range tests {
		l := newLedger(t, loopGraph())
		if _, err := l.apply(machine.Input{At: epoch, Command: machine.Start{RunID: "R", Execution: machine.Caller}}); err != nil {
			t.Fatal(err)
		}
		_, err := l.apply(machine.Input{At: epoch, Command: machine.SetArtifacts{Artifacts: []machine.ArtifactWrite{tt.write}}})
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.write, err)
		}
		if r, isRefusal := err.(*machine.Error); err != nil && (!isRefusal || r.Reason != "ARTIFACT_TYPE") {
			t.Errorf("%+v: %v", tt.write, err)
		}
	}
}
