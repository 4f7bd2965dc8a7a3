package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/script"
	"github.com/pawl-dev/pawl/internal/server"
)

// live follows one run whose turns the sidecar executes, and prints its progress.
type live struct {
	p    *output.Printer
	in   *bufio.Scanner
	runs pawlv1.RunServiceClient
	run  string
	// open is true while the last text that was printed is text of the model, without a line break. streamed is true
	// if text of the current turn was already printed as it arrived.
	open, streamed bool
}

// runLive starts the run and follows it until the run ends, or until it waits for a person and standard input has ended.
func runLive(ctx context.Context, p *output.Printer, in io.Reader, c config.Config, content []byte, flags *startFlags) (err error) {
	req := &pawlv1.StartRunRequest{}
	flags.execution = "SIDECAR"
	if err := flags.fill(req); err != nil {
		return err
	}
	local, err := server.StartLocal(c, nil)
	if err != nil {
		return output.Usage(err)
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	registered, err := pawlv1.NewPackServiceClient(local.Conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: content})
	if err != nil {
		return err
	}
	req.Pack = registered.GetPack().GetDigest()
	l := &live{p: p, in: bufio.NewScanner(in), runs: pawlv1.NewRunServiceClient(local.Conn)}
	started, err := l.runs.StartRun(ctx, req)
	if err != nil {
		return err
	}
	l.run = started.GetRun().GetRunId()
	if err := l.follow(ctx); err != nil {
		return err
	}
	return l.end(ctx)
}

// follow prints the records of the run until the run has ended, or waits and there is no further input.
func (l *live) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := l.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: l.run, Follow: true, Output: true, Kinds: []pawlv1.RecordKind{
			pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_TURN_COMPLETED, pawlv1.RecordKind_RECORD_KIND_TURN_FAILED,
			pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED, pawlv1.RecordKind_RECORD_KIND_STEP_REJECTED, pawlv1.RecordKind_RECORD_KIND_ENDED,
		},
	})
	if err != nil {
		return err
	}
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if out := item.GetOutput(); out != nil {
			l.output(out)
		}
		if r := item.GetRecord(); r != nil {
			if over, err := l.record(ctx, r); over || err != nil {
				return err
			}
		}
	}
}

// output prints a piece of the model's text.
func (l *live) output(out *pawlv1.OutputChunk) {
	if out.GetReset_() {
		l.line()
	}
	if out.GetReasoning() {
		return // this text is not part of the turn's output
	}
	l.text(out.GetText())
}

func (l *live) text(text string) {
	if text != "" && !l.p.JSON {
		l.p.Printf("%s", text)
		l.open, l.streamed = true, true
	}
}

// line begins a new line if the current one contains text.
func (l *live) line() {
	if l.open {
		l.p.Printf("\n")
		l.open = false
	}
}

func (l *live) printf(format string, args ...any) {
	if !l.p.JSON {
		l.line()
		l.p.Printf("%s\n", l.p.Dim(fmt.Sprintf(format, args...)))
	}
}

// record prints a record. It returns over = true if the run waits for a person and standard input has ended.
func (l *live) record(ctx context.Context, r *pawlv1.Record) (over bool, err error) {
	switch {
	case r.GetTransition() != nil:
		l.printf("→ %s (%d)", r.GetTransition().GetToState(), r.GetTransition().GetVisit())
	case r.GetStepRequested() != nil && r.GetStepRequested().GetKind() != pawlv1.StepKind_STEP_KIND_MODEL:
		l.printf("  %s %s", r.GetStepRequested().GetTool(), r.GetStepRequested().GetPayloadJson())
	case r.GetStepRejected() != nil:
		l.printf("  %s refused: %s", r.GetStepRejected().GetTool(), r.GetStepRejected().GetDenial().GetMessage())
	case r.GetTurnFailed() != nil:
		l.line()
		l.p.Warnf("%s %s: %s", l.p.Bad("error:"), r.GetTurnFailed().GetError().GetCode(), r.GetTurnFailed().GetError().GetMessage())
	case r.GetTurnCompleted() != nil:
		return l.completed(ctx, r.GetTurnCompleted())
	}
	return false, nil
}

// completed prints the output of a turn if the output was not streamed. If the run waits for a person, completed asks for input.
func (l *live) completed(ctx context.Context, t *pawlv1.TurnCompleted) (over bool, err error) {
	if !l.streamed {
		for _, part := range t.GetOutput() {
			l.text(part.GetText())
		}
	}
	l.line()
	l.streamed = false
	got, err := l.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: l.run})
	if err != nil || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_WAITING {
		return false, err
	}
	if !l.p.JSON {
		l.p.Printf("> ")
	}
	if !l.in.Scan() {
		if !l.p.JSON {
			l.p.Printf("\n")
		}
		return true, l.in.Err()
	}
	_, err = l.runs.SendInput(ctx, &pawlv1.SendInputRequest{RunId: l.run, Parts: []*pawlv1.Part{textPart(l.in.Text())}})
	return false, err
}

// end prints the final state of the run.
func (l *live) end(ctx context.Context) error {
	o := outcome{result: &script.Result{RunID: l.run}}
	if err := o.read(ctx, l.runs); err != nil {
		return err
	}
	status := output.Bare("RunStatus", o.run.GetStatus().String())
	if l.p.JSON {
		if err := output.WriteJSON(l.p.Out, o.object()); err != nil {
			return err
		}
	} else {
		l.line()
		l.p.Printf("■ %s %s\n", l.p.Status(status), o.run.GetReason())
	}
	if s := o.run.GetStatus(); terminal(s) && s != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		return output.Fault()
	}
	return nil
}

func terminal(s pawlv1.RunStatus) bool { return s >= pawlv1.RunStatus_RUN_STATUS_COMPLETED }
