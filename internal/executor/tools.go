package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/mcp"
)

// ToolsConfig configures [Tools].
type ToolsConfig struct {
	// Conn is the connection to the sidecar, with the rights of the sidecar's own executor. Required.
	Conn grpc.ClientConnInterface
	// ID is the name of the worker in lists and in records. Required.
	ID string
	// Namespace is the namespace of the runs whose steps are executed.
	Namespace string
	// Servers are the clients of the MCP servers that runs of the namespace may call, by name.
	Servers map[string]*mcp.Client
	// Steps bounds the number of steps that are executed at once.
	Steps int
	// Grace bounds the time that Run takes to complete its steps after its context has ended.
	Grace time.Duration
	// OnError is called with the error of each failed step.
	OnError func(error)
}

// ToolsID is the name of the worker of MCP tools in a sidecar that does not share its store.
const ToolsID = "sidecar-mcp"

// Tools executes the steps whose tools belong to MCP servers. It is created with [NewTools].
type Tools struct {
	cfg    ToolsConfig
	packs  pawlv1.PackServiceClient
	runs   pawlv1.RunServiceClient
	worker *pawl.Worker
	mu     sync.Mutex
	// pinned caches the digests of MCP tools that packs pin, by the digest of the pack and then by tool. mu protects
	// it.
	pinned *cache.LRU[string, map[string]string]
}

// maxPinned bounds the number of packs and tool digests together that a worker of MCP tools caches.
const maxPinned = 10_000

// NewTools returns a worker of MCP tools. [Tools.Run] connects it to the sidecar.
func NewTools(cfg ToolsConfig) (*Tools, error) {
	t := &Tools{cfg: cfg, packs: pawlv1.NewPackServiceClient(cfg.Conn), runs: pawlv1.NewRunServiceClient(cfg.Conn), pinned: cache.New[string, map[string]string](maxPinned)}
	var err error
	t.worker, err = pawl.NewWorker(pawl.WorkerConfig{
		Conn: cfg.Conn, ID: cfg.ID, Namespace: cfg.Namespace, Steps: cfg.Steps, Grace: cfg.Grace, OnError: cfg.OnError,
		Tools: map[string]pawl.ToolFunc{"*": t.step},
	})
	return t, err
}

// Run executes steps until ctx ends.
func (t *Tools) Run(ctx context.Context) error { return t.worker.Run(ctx) }

// step calls the tool of one step. A call is sent again only if the first request certainly was not
// executed. If it is not known whether a call took effect, its outcome is unknown, and the pack's
// on_unknown decides.
func (t *Tools) step(ctx context.Context, step *pawl.Step) (json.RawMessage, error) {
	given := step.Assignment
	name, tool, _ := strings.Cut(given.GetLease().GetTool(), "/")
	server := t.cfg.Servers[name]
	if server == nil {
		return nil, &pawl.Failure{
			Code: "MCP_SERVER_NOT_ALLOWED", Message: fmt.Sprintf("runs of the namespace %s may not call the MCP server %s", t.cfg.Namespace, name), Final: true,
		}
	}
	digest, err := t.digest(ctx, given)
	if err != nil {
		return nil, err
	}
	result, err := server.Call(ctx, mcp.Call{
		Tool: tool, Digest: digest, Arguments: json.RawMessage(given.GetPayloadJson()), IdempotencyKey: step.IdempotencyKey(), Traceparent: given.GetTraceparent(),
		Store: t.store,
	})
	if fault, ok := errors.AsType[*mcp.Fault](err); ok {
		return nil, &pawl.Failure{Code: fault.Code, Message: fault.Message, Unknown: fault.Unknown, Final: fault.Final}
	}
	return result, err
}

// digest returns the digest of the MCP tool that the pack of a step pins (allows only). It returns "" if the pack
// pins none.
func (t *Tools) digest(ctx context.Context, given *pawlv1.StepAssignment) (string, error) {
	of := given.GetPack().GetDigest()
	t.mu.Lock()
	pinned, ok := t.pinned.Get(of)
	t.mu.Unlock()
	if ok {
		return pinned[given.GetLease().GetTool()], nil
	}
	got, err := t.pack(ctx, of)
	if err != nil {
		return "", &pawl.Failure{Code: "PACK_UNREADABLE", Message: fmt.Sprintf("the pack that may pin the tool cannot be read, so nothing was sent: %v", err)}
	}
	pinned = map[string]string{}
	for _, tool := range got.GetTools() {
		if tool.GetMcpDigest() != "" {
			pinned[tool.GetName()] = tool.GetMcpDigest()
		}
	}
	t.mu.Lock()
	t.pinned.Put(of, pinned, 1+len(pinned))
	t.mu.Unlock()
	return pinned[given.GetLease().GetTool()], nil
}

// blobPiece is the number of bytes that one message of an upload has.
const blobPiece = 1 << 20

// store stores a medium of a result as a blob, and returns its reference. While the sidecar is unavailable, for example during a
// takeover, it tries again until ctx ends.
func (t *Tools) store(ctx context.Context, mediaType string, data []byte) (string, error) {
	for {
		got, err := t.put(ctx, mediaType, data)
		if status.Code(err) != codes.Unavailable || pause(ctx, packPause) != nil {
			return got.GetBlobRef(), err
		}
	}
}

// put makes one attempt of store.
func (t *Tools) put(ctx context.Context, mediaType string, data []byte) (*pawlv1.PutBlobResponse, error) {
	stream, err := t.runs.PutBlob(ctx)
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(data); at += blobPiece {
		end := min(at+blobPiece, len(data))
		piece := &pawlv1.PutBlobRequest{Offset: int64(at), Data: data[at:end], Last: end == len(data)}
		if at == 0 {
			piece.Namespace, piece.MediaType = t.cfg.Namespace, mediaType
		}
		if stream.Send(piece) != nil {
			break // the answer says why
		}
	}
	return stream.CloseAndRecv()
}

// packPause is the pause between attempts to read a pack from the sidecar, or to store a blob.
const packPause = 200 * time.Millisecond

// pack reads a pack from the sidecar. While the sidecar is unavailable, for example during a takeover, it tries
// again. It uses at most half of the step's time. The other half is for the tool call, or for the report that the
// call was not sent.
func (t *Tools) pack(ctx context.Context, digest string) (*pawlv1.GetPackResponse, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/2)
		defer cancel()
	}
	for {
		got, err := t.packs.GetPack(ctx, &pawlv1.GetPackRequest{Namespace: t.cfg.Namespace, Pack: digest})
		if status.Code(err) != codes.Unavailable || pause(ctx, packPause) != nil {
			return got, err
		}
	}
}
