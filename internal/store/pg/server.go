package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/fencing"
)

// server implements [fencing.Server] in SQL, for one owner of one partition.
type server struct {
	cfg    Config
	conn   *pgx.ConnConfig
	pooled bool
	text   statements
	// session is the connection for commits. It is nil until Acquire has connected.
	session *session
	// found is the storage format that the partition had when its row was last read. format is the
	// format that it had when it was first acquired, and does not change afterwards.
	found, format uint32
}

var _ fencing.Server[*group] = (*server)(nil)

// lockWait is how long a takeover waits for a session that has locked the partition's row. Then the
// takeover ends this session.
const lockWait = "1s"

var errNoSession = errors.New("there is no connection")

// Acquire opens a new connection and takes over the partition. The new epoch fences statements that may
// still run on the old connection.
func (s *server) Acquire(again bool) (st fencing.State, err error) {
	s.Close()
	l, err := openSession(s.conn, !s.pooled)
	if err != nil {
		return st, err
	}
	err = l.do(s.cfg.Timeouts.Statement, func() error {
		st, err = s.acquire(l, again)
		return err
	})
	if err != nil {
		l.close()
		return st, classifyError(err)
	}
	if err = s.checkFormat(st); err != nil {
		l.close()
		return st, err
	}
	if s.session = l; !again && st.Ours {
		s.format = s.found
	}
	return st, nil
}

// checkFormat returns an error if the partition was not acquired and this program does not support its
// storage format.
func (s *server) checkFormat(st fencing.State) error {
	f := s.cfg.Formats
	if st.Ours || f.Oldest <= s.found && s.found <= f.Newest {
		return nil
	}
	return &fencing.FinalError{Err: &FormatError{Schema: s.cfg.Schema, Found: s.found, Oldest: f.Oldest, Newest: f.Newest}}
}

// acquire tries to take over the partition. If another session has locked the partition's row, acquire
// ends that session and tries once more. But if that session belongs to another owner with a valid
// lease, acquire does not end it and returns this owner.
func (s *server) acquire(l *session, again bool) (fencing.State, error) {
	st, err := s.acquireOnce(l, again)
	if codeOf(err) != "55P03" {
		return st, err
	}
	ctx := context.Background()
	if _, err := l.conn.Exec(ctx, "ROLLBACK", pgx.QueryExecModeExec); err != nil {
		return st, err
	}
	ended, failed := l.conn.Exec(ctx, s.text.terminateBlocker, pgx.QueryExecModeExec, s.cfg.Part, s.cfg.Owner)
	if failed != nil {
		return st, failed
	}
	if ended.RowsAffected() > 0 {
		return s.acquireOnce(l, again)
	}
	st, looked := s.readState(l)
	if looked == nil && st.Owner == s.cfg.Owner {
		return st, err
	}
	return st, looked
}

// acquireOnce tries to take over the partition in one transaction, and returns the state of the partition. st.Ours
// reports whether the partition now belongs to this process. If again is true, the partition must
// already belong to this process, see [fencing.Server].
func (s *server) acquireOnce(l *session, again bool) (st fencing.State, err error) {
	ctx := context.Background()
	// After the first error, run does nothing, so that the remaining statements are skipped. The transaction stays
	// open, and the caller rolls it back or closes the session.
	run := func(sql string, args ...any) (rows int64) {
		if err == nil {
			tag, failed := l.conn.Exec(ctx, sql, append([]any{pgx.QueryExecModeExec}, args...)...)
			rows, err = tag.RowsAffected(), failed
		}
		return rows
	}
	run("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
	run("SET LOCAL lock_timeout = '" + lockWait + "'")
	run("SET LOCAL client_min_messages = 'warning'")
	run(s.text.clampLease, s.cfg.Part, s.cfg.Lease.Microseconds())
	ours := run(s.text.acquire, s.cfg.Part, s.cfg.Owner, s.cfg.Address, s.cfg.Lease.Microseconds(), again,
		int32(s.cfg.Formats.Oldest), int32(s.cfg.Formats.Newest), s.cfg.Formats.Raise && !again) == 1
	if err == nil {
		st, err = s.readState(l)
		st.Ours = ours
	}
	run("COMMIT")
	return st, err
}

// readState reads the row of the partition: its owner, epoch, lease and newest commit. It stores the format of
// the partition in s.found.
func (s *server) readState(l *session) (st fencing.State, err error) {
	var lease, left int64
	row := l.conn.QueryRow(context.Background(), s.text.readState, pgx.QueryExecModeExec, s.cfg.Part)
	err = row.Scan(&st.Epoch, &st.Commit, &st.Owner, &st.Address, &lease, &left, &s.found)
	st.Lease, st.Left = time.UnixMicro(lease), time.Duration(left)*time.Microsecond
	return st, err
}

// Commit stores a group with one statement, which only inserts rows of the cold table. In rare cases
// such a row already exists. The statement then fails without an effect, and Commit sends a slower
// statement that overwrites rows.
func (s *server) Commit(epoch, number uint64, g *group) error {
	params := append(s.params(epoch, number), g.arrays()...)
	err := s.fence(s.text.commit[g.changeKinds()], commitTypes, params)
	if codeOf(err) == "23505" {
		err = s.fence(s.text.commitOverwrite[g.changeKinds()], commitTypes, params)
	}
	return err
}

// Renew renews the lease with a statement that contains only the fence (the check of owner and epoch).
func (s *server) Renew(epoch, number uint64) error {
	return s.fence(s.text.renew, fenceTypes, s.params(epoch, number))
}

func (s *server) params(epoch, number uint64) [][]byte {
	return append(make([][]byte, 0, 11), int4(s.cfg.Part), []byte(s.cfg.Owner), int8of(epoch), int8of(number), int8of(uint64(s.cfg.Lease.Microseconds())))
}

// fence executes a statement that changes rows only if the owner, the epoch and the newest commit group
// are the expected ones (the fence). It then returns one row. If it returns no row, the error is
// [fencing.ErrNoFence].
func (s *server) fence(text string, types []uint32, params [][]byte) error {
	if s.session == nil {
		return errNoSession
	}
	rows := 0
	err := s.session.do(s.cfg.Timeouts.Statement, func() (err error) {
		rows, err = s.session.rows(text, types, params)
		return err
	})
	switch {
	case err != nil:
		return classifyError(err)
	case rows != 1:
		return fencing.ErrNoFence
	}
	return nil
}

// Release ends the lease.
func (s *server) Release(epoch uint64) error {
	if s.session == nil {
		return errNoSession
	}
	return s.session.do(s.cfg.Timeouts.Statement, func() error {
		_, err := s.session.conn.Exec(context.Background(), s.text.release, pgx.QueryExecModeExec, s.cfg.Part, s.cfg.Owner, epoch)
		return err
	})
}

// Close closes the connection.
func (s *server) Close() {
	if s.session != nil {
		s.session.close()
		s.session = nil
	}
}
