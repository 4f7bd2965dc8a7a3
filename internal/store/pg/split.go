package pg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Share describes the data that another partition gets when a partition is split.
type Share struct {
	// Part is the number of the partition that gets the rows. It must be empty.
	Part int32
	// Names are the namespaces that are in Part after the split.
	Names []string
	// Moved are the prefixes of the keys that move to Part. Copied are the keys of rows that exist in both partitions
	// after the split.
	Moved, Copied [][]byte
}

// AliveError means that a running sidecar shares the store. It uses the current placement of
// namespaces, so they must not move.
type AliveError struct{ Schema, Address string }

// Error returns a text with the address of the sidecar.
func (e *AliveError) Error() string {
	return fmt.Sprintf("the sidecar at %s shares the schema %q and lives: stop all of them", e.Address, e.Schema)
}

const (
	// aliveText returns the address of a running sidecar. It ignores a lease that is longer than the
	// maximum, because such a lease was written before the clock was set back.
	aliveText          = `SELECT coalesce(max(address), '') FROM {s}.node WHERE lease_until > clock_timestamp() AND lease_until < clock_timestamp() + interval '1 minute'`
	lockNamespacesText = `LOCK TABLE {s}.namespace IN SHARE ROW EXCLUSIVE MODE`
	// shareText moves ranges of keys to another partition. It finds the keys in the index. {t} stands
	// for the table.
	shareText = `UPDATE {s}.{t} AS pair SET part = $2 FROM unnest($3::bytea[], $4::bytea[]) AS u (low, high)
	WHERE pair.part = $1 AND pair.k >= u.low AND pair.k < u.high`
	copyText   = `INSERT INTO {s}.{t} (part, k, v, g) SELECT $2, k, v, g FROM {s}.{t} WHERE part = $1 AND k = ANY ($3::bytea[])`
	forgetText = `DELETE FROM {s}.{t} WHERE part = $1 AND k >= $2 AND k < $3`
	splitText  = `UPDATE {s}.part SET epoch = epoch + 1 WHERE id = $1 AND epoch = $2 AND owner = '' AND commit_no = $3`
	// sharedPartText sets the last commit and the format of a partition to those of the partition that
	// was split. It changes no row if the partition has an owner or data.
	sharedPartText = `UPDATE {s}.part AS other SET commit_no = own.commit_no, format = own.format,
	epoch = other.epoch + 1, owner = '', address = '', lease_until = '-infinity'
	FROM {s}.part AS own WHERE own.id = $1 AND other.id = $2 AND other.commit_no = 0 AND other.lease_until <= clock_timestamp()`
)

// Placements returns the partition of each namespace that has one, and the numbers of the partitions
// that have a commit.
func (d *DB) Placements(ctx context.Context) (places map[string]int32, taken []int32, err error) {
	if places, err = d.at.Placements(ctx); err != nil {
		return nil, nil, err
	}
	taken, err = d.at.Parts(ctx)
	return places, taken, err
}

// Split moves pairs of this partition to empty partitions. The last commit group of these partitions is
// then that of this partition. Split also deletes the pairs whose keys begin with lost. All changes are
// one transaction. The partition stays owned until the last step. Split always releases it and closes
// d. Errors: *[AliveError].
func (d *DB) Split(ctx context.Context, shares []Share, lost []byte) (err error) {
	last := d.LastKey()
	l, err := d.beginLongTxn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.lockPlacement(); err != nil {
		return err
	}
	for _, share := range shares {
		if err := l.share(share); err != nil {
			return err
		}
	}
	for _, table := range tableNames {
		if err := l.exec(l.ctx, withTable(table, forgetText), d.cfg.Part, lost, prefixEnd(lost)); err != nil {
			return err
		}
	}
	err = l.end(func(epoch int64) error { return l.split(shares, epoch, last) })
	if err != nil {
		err = fmt.Errorf("the last step: %w", err)
	}
	return err
}

// splitIdleTimeout is how long the database waits for the next statement of a split. If the caller is disconnected,
// the transaction ends after this time. Nodes can then start again.
const splitIdleTimeout = "1min"

// lockPlacement locks the placement of namespaces, and checks that no running node uses the current
// placement.
func (l *longTxn) lockPlacement() error {
	for _, text := range []string{
		"SET LOCAL statement_timeout = 0", "SET LOCAL idle_in_transaction_session_timeout = '" + splitIdleTimeout + "'", "SET LOCAL lock_timeout = '" + lockWait + "'", lockNamespacesText,
	} {
		if err := l.exec(l.ctx, text); err != nil {
			return err
		}
	}
	return l.checkNoneAlive(l.ctx)
}

// checkNoneAlive returns an *[AliveError] if a node of a cluster is running.
func (l *longTxn) checkNoneAlive(ctx context.Context) error {
	address := ""
	err := l.session.conn.QueryRow(ctx, inSchema(aliveText, l.db.cfg.Schema), pgx.QueryExecModeExec).Scan(&address)
	if err == nil && address != "" {
		err = &AliveError{Schema: l.db.cfg.Schema, Address: address}
	}
	return err
}

func withTable(table, text string) string { return strings.ReplaceAll(text, "{t}", table) }

// share moves and copies the pairs that one other partition gets.
func (l *longTxn) share(s Share) error {
	own, past := l.db.cfg.Part, make([][]byte, len(s.Moved))
	for i, prefix := range s.Moved {
		past[i] = prefixEnd(prefix)
	}
	for _, table := range tableNames {
		if err := l.exec(l.ctx, withTable(table, shareText), own, s.Part, s.Moved, past); err != nil {
			return err
		}
		if err := l.exec(l.ctx, withTable(table, copyText), own, s.Part, s.Copied); err != nil {
			return err
		}
	}
	return nil
}

// split executes the last step of a split. It changes the rows of the partitions and stores the
// partition of each namespace. It fails if a partition had another owner in the meantime, or if a node
// has joined the cluster.
func (l *longTxn) split(shares []Share, epoch int64, last uint64) error {
	own := l.db.cfg.Part
	if err := l.execOne(splitText, own, epoch, int64(last)); err != nil {
		return err
	}
	ctx, places := context.Background(), make(map[string]int32)
	for _, share := range shares {
		if err := l.exec(ctx, l.db.at.SeedText(), []int32{share.Part}, int32(l.db.cfg.Formats.Oldest)); err != nil {
			return err
		}
		if err := l.execOne(sharedPartText, own, share.Part); err != nil {
			return fmt.Errorf("partition %d: %w", share.Part, err)
		}
		for _, name := range share.Names {
			places[name] = share.Part
		}
	}
	if err := l.checkNoneAlive(ctx); err != nil {
		return err
	}
	return l.storePlacements(places)
}
