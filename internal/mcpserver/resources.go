package mcpserver

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
	"github.com/pawl-dev/pawl/internal/output"
)

const (
	runsURI  = "pawl://runs/"
	packsURI = "pawl://packs/"
	mimeJSON = "application/json"
	// recordsPath and artifactsPath follow the id of a run in the address of a resource.
	recordsPath, artifactsPath = "records", "artifacts"
	// recordsOfResource is how many of the newest records of a run a resource has at most.
	recordsOfResource = 200
)

// artifactURI returns the address of an artifact.
func artifactURI(run, name string) string {
	return runsURI + run + "/" + artifactsPath + "/" + url.PathEscape(name)
}

// addResources adds the templates of the resources: packs, runs, their newest records and their artifacts.
func (c *session) addResources(server *sdk.Server) {
	for _, t := range []sdk.ResourceTemplate{
		{URITemplate: packsURI + "{+pack}", Name: "pack", Description: "The document of a pack: ID or ID@VERSION."},
		{URITemplate: runsURI + "{run_id}", Name: "run", Description: "A run with its output, artifacts and last error.", MIMEType: mimeJSON},
		{URITemplate: runsURI + "{run_id}/" + recordsPath, Name: "records", Description: "The newest records of a run: transitions, ends of turns, answers of steps, and its end.", MIMEType: mimeJSON},
		{URITemplate: runsURI + "{run_id}/" + artifactsPath + "/{name}", Name: "artifact", Description: "The value of an artifact of a run."},
	} {
		server.AddResourceTemplate(&t, func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			contents, err := c.read(c.outgoing(ctx), req.Params.URI)
			if status.Code(err) == codes.NotFound {
				return nil, sdk.ResourceNotFoundError(req.Params.URI)
			}
			if err != nil {
				return nil, rpcError(err)
			}
			contents.URI = req.Params.URI
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
		})
	}
}

// read returns a resource.
func (c *session) read(ctx context.Context, uri string) (*sdk.ResourceContents, error) {
	if ref, ok := strings.CutPrefix(uri, packsURI); ok {
		got, err := c.service.packs.GetPack(ctx, &pawlv1.GetPackRequest{Namespace: c.namespace, Pack: unescaped(ref), IncludeContent: true})
		return &sdk.ResourceContents{Text: string(got.GetContent())}, err
	}
	id, rest, _ := strings.Cut(strings.TrimPrefix(uri, runsURI), "/")
	kind, name, _ := strings.Cut(rest, "/")
	switch kind {
	case "":
		content, err := c.content(ctx, id)
		return asJSON(content, err)
	case recordsPath:
		got, err := c.service.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.namespace, RunId: id})
		if err != nil {
			return nil, err
		}
		records, err := export.NewestRecords(ctx, c.service.runs, got.GetRun(), recordsOfResource)
		list := []any{}
		for _, record := range records {
			list = append(list, output.Record(record))
		}
		return asJSON(list, err)
	case artifactsPath:
		return c.artifact(ctx, id, unescaped(name))
	}
	return nil, status.Errorf(codes.NotFound, "no resource %s", uri)
}

// artifact returns the value of an artifact.
func (c *session) artifact(ctx context.Context, id, name string) (*sdk.ResourceContents, error) {
	got, err := c.service.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.namespace, RunId: id, IncludeArtifacts: true})
	if err != nil {
		return nil, err
	}
	for _, a := range got.GetArtifacts() {
		if a.GetHead().GetName() != name {
			continue
		}
		contents := &sdk.ResourceContents{MIMEType: a.GetHead().GetMediaType()}
		switch value := a.GetValue().GetValue().(type) {
		case *pawlv1.ArtifactValue_Json:
			contents.Text = value.Json
		case *pawlv1.ArtifactValue_Text:
			contents.Text = value.Text
		case *pawlv1.ArtifactValue_Data:
			contents.Blob = value.Data
		default:
			return nil, status.Errorf(codes.NotFound, "the artifact %s has no value here", name)
		}
		return contents, nil
	}
	return nil, status.Errorf(codes.NotFound, "the run %s has no artifact %s", id, name)
}

func asJSON(value any, err error) (*sdk.ResourceContents, error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(value)
	return &sdk.ResourceContents{MIMEType: mimeJSON, Text: string(text)}, err
}

// unescaped returns a part of an address without its escapes. A part that is not escaped correctly stays as it is.
func unescaped(part string) string {
	if text, err := url.PathUnescape(part); err == nil {
		return text
	}
	return part
}
