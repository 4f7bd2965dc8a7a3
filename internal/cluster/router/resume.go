package router

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/encoded"
)

// These are the field numbers of StreamTransitionsResponse and of its parts. With them, the router
// reads the position from the encoded bytes without decoding whole messages.
const (
	recordField       protowire.Number = 1
	heartbeatField    protowire.Number = 2
	outputField       protowire.Number = 4
	cursorOfRecord    protowire.Number = 4
	cursorOfHeartbeat protowire.Number = 1
)

// streamPosition is the position of a reader of StreamTransitions. The zero value means that the reader
// has received no message.
type streamPosition struct {
	// cursor is the newest cursor that the reader has received. It is empty if the reader has received
	// none.
	cursor string
	// output is the position of the last piece of output that the reader has received. It is nil if the
	// reader has received none.
	output *pawlv1.OutputPosition
}

// advance moves the position to the position after a response. It does not change the response, because
// other readers may share it.
func (p *streamPosition) advance(m any) {
	switch m := m.(type) {
	case *pawlv1.StreamTransitionsResponse:
		switch item := m.GetItem().(type) {
		case *pawlv1.StreamTransitionsResponse_Record:
			p.cursor = item.Record.GetCursor()
		case *pawlv1.StreamTransitionsResponse_Heartbeat:
			p.cursor = item.Heartbeat.GetCursor()
		case *pawlv1.StreamTransitionsResponse_Output:
			p.advanceOutput(item.Output)
		}
	case encoded.Message:
		p.advanceBytes(m)
	}
}

func (p *streamPosition) advanceBytes(m []byte) {
	if record := fieldOf(m, recordField); record != nil {
		p.cursor = string(fieldOf(record, cursorOfRecord))
	} else if beat := fieldOf(m, heartbeatField); beat != nil {
		p.cursor = string(fieldOf(beat, cursorOfHeartbeat))
	} else if piece := fieldOf(m, outputField); piece != nil {
		out := &pawlv1.OutputChunk{}
		if proto.Unmarshal(piece, out) == nil {
			p.advanceOutput(out)
		}
	}
}

func (p *streamPosition) advanceOutput(piece *pawlv1.OutputChunk) {
	p.output = &pawlv1.OutputPosition{
		TurnSeq: piece.GetTurnSeq(), Delivery: piece.GetDelivery(), Offset: piece.GetOffset() + int64(len(piece.GetText())),
	}
}

// fieldOf returns the bytes of the first field with the wanted number. It returns nil if there is none.
func fieldOf(wire []byte, want protowire.Number) []byte {
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return nil
		}
		wire = wire[n:]
		if number == want && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(wire)
			return value
		}
		if n = protowire.ConsumeFieldValue(number, kind, wire); n < 0 {
			return nil
		}
		wire = wire[n:]
	}
	return nil
}

// resumed returns the request that continues after the last message that was sent to the reader. A
// stream that begins "from now" first sends a heartbeat. With it, the position of the stream is known
// before the reader could miss a record.
func (m *Method) resumed(req proto.Message, told *outlet) proto.Message {
	in, ok := req.(*pawlv1.StreamTransitionsRequest)
	if !ok {
		return req
	}
	told.mu.Lock()
	defer told.mu.Unlock()
	if told.cursor == "" && told.output == nil {
		return req
	}
	rest := proto.CloneOf(in)
	if told.cursor != "" {
		rest.AfterCursor, rest.AfterSeq, rest.FromNow = told.cursor, 0, false
	}
	if told.output != nil {
		rest.OutputAfter = told.output
	}
	return rest
}
