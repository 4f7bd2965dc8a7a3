package machine

import "testing"

func TestFoldArtifact(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		mediaType string
		mode      Mode
		values    []string
		want      string
	}{
		{"nothing", "text/plain", Append, nil, ""},
		{"replace", "text/plain", Replace, []string{"a", "b"}, "b"},
		{"text", "text/plain; charset=utf-8", Append, []string{"a", "", "b"}, "a\n\nb"},
		{"bytes", "image/png", Append, []string{"a", "b"}, "ab"},
		{"one element", "application/json", Append, []string{`{"a":[1]}`}, `[{"a":[1]}]`},
		{"arrays", "application/json", Append, []string{`[1,2]`, `[]`, `3`, ` [ 4 ] `, `[[5]]`}, `[1,2,3,4,[5]]`},
		{"empty arrays", "application/problem+json", Append, []string{`[]`, `[ ]`}, `[]`},
		{"scalars", "APPLICATION/JSON", Append, []string{`null`, `"[x]"`, `true`}, `[null,"[x]",true]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var values [][]byte
			for _, v := range tt.values {
				values = append(values, []byte(v))
			}
			if got := string(FoldArtifact(tt.mediaType, tt.mode, values)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestFormOf(t *testing.T) {
	t.Parallel()
	for mediaType, want := range map[string]Form{
		"application/json": FormJSON, "Application/JSON; charset=utf-8": FormJSON, "application/ld+json": FormJSON,
		"text/plain": FormText, "TEXT/markdown ; x=y": FormText, "application/jsonl": FormBytes, "image/png": FormBytes, "": FormBytes,
	} {
		if got := FormOf(mediaType); got != want {
			t.Errorf("%q is %v, want %v", mediaType, got, want)
		}
	}
	for form, want := range map[Form]string{FormUnset: "unset", FormBytes: "data", FormJSON: "json", FormText: "text", Form(99): "unknown"} {
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
		write ArtifactWrite
		ok    bool
	}{
		{ArtifactWrite{Name: "commit_sha", Value: []byte("1"), Form: FormText}, true},
		{ArtifactWrite{Name: "commit_sha", Value: []byte("1"), Form: FormJSON}, false},
		{ArtifactWrite{Name: "commit_sha", Value: []byte("1"), Type: "text/plain"}, true},
		{ArtifactWrite{Name: "commit_sha", Value: []byte("1"), Type: "text/html"}, false},
		{ArtifactWrite{Name: "test_report", Value: []byte("1"), Form: FormBytes}, false},
		{ArtifactWrite{Name: "test_report", Value: []byte("1"), Form: FormJSON, Type: "application/json"}, true},
	}
	for _, tt := range tests {
		l := newLedger(t, loopGraph())
		if _, err := l.apply(Input{At: epoch, Command: Start{RunID: "R", Execution: Caller}}); err != nil {
			t.Fatal(err)
		}
		_, err := l.apply(Input{At: epoch, Command: SetArtifacts{Artifacts: []ArtifactWrite{tt.write}}})
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.write, err)
		}
		if r, isRefusal := err.(*Refusal); err != nil && (!isRefusal || r.Reason != "ARTIFACT_TYPE") {
			t.Errorf("%+v: %v", tt.write, err)
		}
	}
}
