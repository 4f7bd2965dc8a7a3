package mcp

import (
	"context"
	"encoding/json"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// storeFunc is the type of [Call.Store].
type storeFunc = func(ctx context.Context, mediaType string, data []byte) (reference string, err error)

// storeMedia stores the media of contents, and returns the contents with references in their place.
func storeMedia(ctx context.Context, contents []sdk.Content, store storeFunc) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(contents))
	for i, content := range contents {
		raw, err := json.Marshal(content)
		if data, mediaType := mediumOf(content); err == nil && len(data) > 0 {
			var reference string
			if reference, err = store(ctx, mediaType, data); err == nil {
				raw, err = refer(raw, reference)
			}
		}
		if err != nil {
			return nil, err
		}
		out[i] = raw
	}
	return out, nil
}

// mediumOf returns the binary data of a content and its media type. It returns no data for contents that have none.
func mediumOf(content sdk.Content) (data []byte, mediaType string) {
	switch c := content.(type) {
	case *sdk.ImageContent:
		return c.Data, c.MIMEType
	case *sdk.AudioContent:
		return c.Data, c.MIMEType
	case *sdk.EmbeddedResource:
		if c.Resource != nil {
			return c.Resource.Blob, c.Resource.MIMEType
		}
	}
	return nil, ""
}

// refer replaces the data of a content, or of the resource in it, with a reference.
func refer(content json.RawMessage, reference string) (json.RawMessage, error) {
	value, err := strictjson.Value(content)
	if err != nil {
		return nil, err
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("a content is no JSON object")
	}
	of := fields
	if resource, ok := fields["resource"].(map[string]any); ok {
		of = resource
	}
	delete(of, "data")
	delete(of, "blob")
	of["blobRef"] = reference
	return json.Marshal(fields)
}
