package router

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
)

// These are the field numbers of StreamTransitionsResponse and of its parts. The router uses them to
// read the position of a stream from the encoded bytes without decoding whole messages.
const (
	recordField       protowire.Number = 1
	heartbeatField    protowire.Number = 2
	outputField       protowire.Number = 4
	cursorOfRecord    protowire.Number = 4
	cursorOfHeartbeat protowire.Number = 1
)

// streamPosition is how far the caller of a StreamTransitions call has read. The zero value means that
// the caller has received no message.
type streamPosition struct {
	// cursor is the newest cursor that the reader has received. It is empty if the reader has received
	// none.
	cursor string
	// output is the position after the last piece of a turn's output that the reader has received. It
	// is nil if the reader has received none.
	output *pawlv1.OutputPosition
}

// advance updates the position after a response was sent. It does not change the response, because
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
	case codec.Message:
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

// resumed returns the request that continues a stream after the last message that the caller has
// received. If the caller has received none, it returns req. A stream "from now" begins with a
// heartbeat that contains a cursor, so its position is known from the start.
func (m *Method) resumed(req proto.Message, output *outputStream) proto.Message {
	in, ok := req.(*pawlv1.StreamTransitionsRequest)
	if !ok {
		return req
	}
	output.mu.Lock()
	defer output.mu.Unlock()
	if output.cursor == "" && output.output == nil {
		return req
	}
	rest := proto.CloneOf(in)
	if output.cursor != "" {
		rest.AfterCursor, rest.AfterSeq, rest.FromNow = output.cursor, 0, false
	}
	if output.output != nil {
		rest.OutputAfter = output.output
	}
	return rest
}
