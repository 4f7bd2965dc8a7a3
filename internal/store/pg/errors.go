package pg

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/internal/store/fencing"
)

// codeOf returns the SQLSTATE code of the database's answer. It returns "" if the error is not an
// answer of the database.
func codeOf(err error) string {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code
	}
	return ""
}

// IsFull reports that the disk of the database is full.
func IsFull(err error) bool { return codeOf(err) == "53100" }

// isUnavailable reports whether an SQLSTATE code means that the database is temporarily unavailable: because of
// problems of connections, resources or the operating system; an intervention by an operator; a server that
// became read-only by a demotion; a conflict with another transaction; a lock that was not granted in time; or
// an internal error of the server.
func isUnavailable(code string) bool {
	switch code {
	case "25006", "40001", "40P01", "55P03", "55006":
		return true
	case "XX001", "XX002":
		// These codes mean that a table or an index is damaged. A retry does not help, so the database
		// does not count as temporarily unavailable.
		return false
	}
	for _, class := range []string{"08", "53", "57", "58", "XX"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// classifyError classifies an error of a statement. An error of the database that a retry cannot change
// becomes a *[fencing.FinalError]. After any other error the outcome of the statement is unknown, for
// example because no answer arrived, and the error is returned unchanged.
func classifyError(err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.SeverityUnlocalized != "ERROR" || isUnavailable(answer.Code) || isUnprepared(answer.Code) {
		return err
	}
	return &fencing.FinalError{Err: err}
}

// isUnprepared reports whether an SQLSTATE code means that a prepared statement does not exist in the
// session, or exists already. This happens if the connection pooler between this process and the server
// was not detected.
func isUnprepared(code string) bool { return code == "26000" || code == "42P05" }
