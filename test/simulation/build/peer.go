package main

import "path/filepath"

// peers has nodes of a cluster listen and dial in memory; all else of how they reach each other is
// real.
func (o *overlay) peers() error {
	pipes := exchange{
		old: "\t\"github.com/pawl-dev/pawl/internal/cluster/router\"\n",
		new: "\t\"github.com/pawl-dev/pawl/internal/cluster/router\"\n\t\"github.com/pawl-dev/pawl/test/simulation/pipes\"\n",
	}
	room := filepath.Join(o.module, "internal/cluster/transport")
	if err := o.patch(filepath.Join(room, "server.go"), pipes, exchange{
		old: "new(net.ListenConfig).Listen(context.Background(), \"tcp\", cfg.Listen)", new: "pipes.Listen(cfg.Listen)",
	}); err != nil {
		return err
	}
	return o.patch(filepath.Join(room, "client.go"), pipes, exchange{
		old: "grpc.WithContextDialer(dial)",
		new: "grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return pipes.Dial(ctx, c.identity.Key, to) })",
	})
}
