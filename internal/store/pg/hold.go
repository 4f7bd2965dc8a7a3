package pg

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Hold keeps a transaction open on a connection of its own. The views of the result import its
// snapshot, so they show the same commit group.
func (d *DB) Hold(group uint64) (kv.HeldGroup, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Timeouts.Read)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, d.at.conn)
	if err != nil {
		return nil, err
	}
	h := &heldSnapshot{db: d, conn: conn}
	if h.group, h.snapshot, err = d.export(ctx, conn, group); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// export begins a transaction. It returns the number of the newest commit group in it, and the name
// under which its snapshot is exported.
func (d *DB) export(ctx context.Context, conn *pgx.Conn, asked uint64) (group uint64, name string, err error) {
	s := snapshot{db: d, minGroup: asked}
	batch := &pgx.Batch{}
	batch.Queue(begin)
	batch.Queue(d.text.readOwner, d.cfg.Part)
	batch.Queue("SELECT pg_catalog.pg_export_snapshot()")
	results := conn.SendBatch(ctx, batch)
	defer results.Close()
	if err = s.readPreamble(ctx, results); err == nil {
		err = results.QueryRow().Scan(&name)
	}
	return s.group, name, err
}

type heldSnapshot struct {
	db       *DB
	conn     *pgx.Conn
	group    uint64
	snapshot string
}

// Group returns the number of the commit group that the held transaction shows.
func (h *heldSnapshot) Group() uint64 { return h.group }

// View returns a view that imports the snapshot of the held transaction.
func (h *heldSnapshot) View() kv.Snapshot {
	return &snapshot{db: h.db, minGroup: h.group, imported: h.snapshot}
}

// Close ends the transaction.
func (h *heldSnapshot) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), ending)
	defer cancel()
	_ = h.conn.Close(ctx)
}
