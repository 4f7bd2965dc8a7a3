package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// Workspace writes RFC-103's workspace of a run: context.md, plan.md, memory.md,
// trace.jsonl and artifacts/.
type Workspace struct {
	Runs      pawlv1.RunServiceClient
	Packs     pawlv1.PackServiceClient
	Namespace string

	root  *os.Root
	files *fileNames
	// written are the files that were written, in order. missing are the blobs that could not be read.
	written, missing []string
}

// Written is the result of an export.
type Written struct {
	// Files are the paths below the directory, in order.
	Files []string
	// Missing are references to blobs that the sidecar does not have.
	Missing []string
}

// Export writes the workspace of a run into a directory, which must be empty or not exist. An active run is written in its current state.
func (w *Workspace) Export(ctx context.Context, run, dir string) (Written, error) {
	if err := emptyDir(dir); err != nil {
		return Written{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Written{}, err
	}
	w.root, w.files = root, newFileNames()
	err = errors.Join(w.export(ctx, run), root.Close())
	return Written{Files: w.written, Missing: w.missing}, err
}

// emptyDir creates a directory, or checks that an existing one is empty.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty: a workspace is written into a directory of its own", dir)
	}
	return err
}

// export writes the files of one run: context.md, plan.md, memory.md, trace.jsonl and the artifacts.
func (w *Workspace) export(ctx context.Context, id string) error {
	got, err := w.Runs.GetRun(ctx, &pawlv1.GetRunRequest{
		Namespace: w.Namespace, RunId: id, IncludeArtifacts: true, IncludeVariables: true,
	})
	if err != nil {
		return err
	}
	records, err := w.records(ctx, id)
	if err != nil {
		return err
	}
	memory, err := w.memory(ctx, got, records)
	if err != nil {
		return err
	}
	trace, err := traceLines(records)
	if err != nil {
		return err
	}
	for _, file := range []struct{ name, text string }{
		{"context.md", contextText(got, records)}, {"plan.md", artifactText(got.GetArtifacts(), "plan")},
		{"memory.md", memory}, {"trace.jsonl", trace},
	} {
		if err := w.write(file.name, strings.NewReader(file.text)); err != nil {
			return err
		}
	}
	if err := w.root.Mkdir("artifacts", 0o750); err != nil {
		return err
	}
	if err := w.artifacts(ctx, got.GetArtifacts()); err != nil {
		return err
	}
	return w.blobs(ctx, trace)
}

// records returns all records of a run, of every kind.
func (w *Workspace) records(ctx context.Context, id string) ([]*pawlv1.Record, error) {
	req := &pawlv1.ListTransitionsRequest{Namespace: w.Namespace, RunId: id, PageSize: 1000}
	for n := range pawlv1.RecordKind_name {
		if n != 0 {
			req.Kinds = append(req.Kinds, pawlv1.RecordKind(n))
		}
	}
	var all []*pawlv1.Record
	for {
		page, err := w.Runs.ListTransitions(ctx, req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetRecords()...)
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, nil
		}
	}
}

func (w *Workspace) write(name string, from io.Reader) error {
	file, err := w.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	w.written = append(w.written, name)
	return errors.Join(err, file.Close())
}

// traceLines returns the records as JSON, one record on each line.
func traceLines(records []*pawlv1.Record) (string, error) {
	var b strings.Builder
	for _, r := range records {
		if err := output.WriteLine(&b, output.Record(r)); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

// artifacts writes each artifact to a file. If a value is a reference to a blob, the content of the blob is written, or
// the reference if the sidecar does not have the blob.
func (w *Workspace) artifacts(ctx context.Context, artifacts []*pawlv1.Artifact) error {
	for _, a := range artifacts {
		name := "artifacts/" + w.files.fileName(a.GetHead().GetName(), a.GetHead().GetMediaType())
		if ref := wholeRef(a.GetValue()); ref != "" {
			ok, err := w.blob(ctx, ref, func(string) string { return name })
			if err != nil {
				return err
			}
			if ok {
				continue
			}
		}
		if err := w.write(name, strings.NewReader(valueText(a.GetValue()))); err != nil {
			return err
		}
	}
	return nil
}

func valueText(v *pawlv1.ArtifactValue) string {
	switch v := v.GetValue().(type) {
	case *pawlv1.ArtifactValue_Json:
		return v.Json
	case *pawlv1.ArtifactValue_Text:
		return v.Text
	case *pawlv1.ArtifactValue_Data:
		return string(v.Data)
	}
	return ""
}

var (
	anyRef  = regexp.MustCompile(`blob:sha256:[0-9a-f]{64}`)
	onlyRef = regexp.MustCompile(`^` + anyRef.String() + `$`)
)

// wholeRef returns the reference to a blob if the value is only a reference. For other values it returns "".
func wholeRef(v *pawlv1.ArtifactValue) string {
	text := v.GetText()
	if v.GetJson() != "" && json.Unmarshal([]byte(v.GetJson()), &text) != nil {
		return ""
	}
	if text = strings.TrimSpace(text); onlyRef.MatchString(text) {
		return text
	}
	return ""
}

// blobs writes each blob that the trace refers to, so that a reader of the trace finds it by its hash. A blob that is the value of an artifact
// is written a second time.
func (w *Workspace) blobs(ctx context.Context, trace string) error {
	seen := map[string]bool{}
	for _, ref := range anyRef.FindAllString(trace, -1) {
		if seen[ref] {
			continue
		}
		seen[ref] = true
		_, err := w.blob(ctx, ref, func(mediaType string) string {
			return "artifacts/" + w.files.fileName("blob-"+strings.TrimPrefix(ref, "blob:sha256:"), mediaType)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// blob writes a blob to the file that name returns for its media type. It returns false if the sidecar does
// not have the blob.
func (w *Workspace) blob(ctx context.Context, ref string, name func(mediaType string) string) (bool, error) {
	stream, err := w.Runs.GetBlob(ctx, &pawlv1.GetBlobRequest{Namespace: w.Namespace, BlobRef: ref})
	if err != nil {
		return false, err
	}
	first, err := stream.Recv()
	if code := status.Code(err); code == codes.NotFound || code == codes.FailedPrecondition {
		if !slices.Contains(w.missing, ref) {
			w.missing = append(w.missing, ref)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, w.write(name(first.GetMediaType()), &blobReader{stream: stream, data: first.GetData()})
}

// blobReader reads the remaining pieces of a blob from its stream.
type blobReader struct {
	stream interface {
		Recv() (*pawlv1.GetBlobResponse, error)
	}
	data []byte
}

func (r *blobReader) Read(p []byte) (int, error) {
	for len(r.data) == 0 {
		next, err := r.stream.Recv()
		if err != nil {
			return 0, err
		}
		r.data = next.GetData()
	}
	n := copy(p, r.data)
	r.data = r.data[n:]
	return n, nil
}
