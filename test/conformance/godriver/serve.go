package godriver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
)

// request is one line of the runner.
type request struct {
	ID   int             `json:"id"`
	Op   string          `json:"op"`
	Args json.RawMessage `json:"args"`
}

// output orders the lines that are written.
type output struct {
	mu sync.Mutex
	to *json.Encoder
}

func (o *output) write(line map[string]any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.to.Encode(line)
}

func (o *output) event(fields map[string]any) { o.write(map[string]any{"event": fields}) }

// Serve answers requests until the input ends.
func Serve(in io.Reader, out io.Writer) {
	d := &driver{out: &output{to: json.NewEncoder(out)}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			d.out.event(map[string]any{"kind": "garbage", "line": string(line)})
			continue
		}
		go d.answer(r)
	}
}

func (d *driver) answer(r request) {
	result, err := d.perform(context.Background(), r)
	if err != nil {
		d.out.write(map[string]any{"id": r.ID, "error": faultOf(err)})
		return
	}
	if result == nil {
		result = map[string]any{}
	}
	d.out.write(map[string]any{"id": r.ID, "result": result})
}

// faultOf is an error as the scenarios have it.
func faultOf(err error) map[string]any {
	st := status.Convert(err)
	fault := map[string]any{"code": codeName(st.Code()), "message": st.Message(), "reason": "", "metadata": map[string]string{}}
	// Errors that the client makes itself.
	switch {
	case errors.Is(err, pawl.ErrClosed):
		fault["code"] = codeName(codes.Canceled)
	case errors.Is(err, pawl.ErrTakenOver):
		fault["reason"] = "RUN_TAKEN_OVER"
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			fault["reason"], fault["metadata"] = info.GetReason(), info.GetMetadata()
		}
	}
	return fault
}
