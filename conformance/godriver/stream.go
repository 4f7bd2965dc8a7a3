package godriver

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// driving makes commands over one Drive stream, one after the other.
type driving struct {
	stream pawlv1.RunService_DriveClient
	last   uint64
}

// openDriving opens the stream; it ends with the context.
func (d *driver) openDriving(ctx context.Context) (*driving, error) {
	stream, err := d.client().Drive(ctx)
	if err != nil {
		return nil, err
	}
	_, err = stream.Recv() // its window; there is one command at a time
	return &driving{stream: stream}, err
}

// make makes one command and gives its answer.
func (g *driving) make(c *pawlv1.DriveCommand) (*pawlv1.DriveAnswer, error) {
	g.last++
	c.Id = g.last
	err := g.stream.Send(&pawlv1.DriveRequest{Commands: []*pawlv1.DriveCommand{c}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for {
		got, err := g.stream.Recv()
		if err != nil {
			return nil, err
		}
		for _, one := range got.GetAnswers() {
			if refused := one.GetError(); refused != nil {
				return nil, status.FromProto(refused).Err()
			}
			if one.GetId() == g.last {
				return one, nil
			}
		}
	}
}
