package pg

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/internal/store/fencing"
)

// codeOf returns the SQLSTATE of the database's answer. It returns "" if the error is not an answer of
// the database.
func codeOf(err error) string {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code
	}
	return ""
}

// IsFull reports that the disk of the database is full.
func IsFull(err error) bool { return codeOf(err) == "53100" }

// away reports whether an SQLSTATE means that the database is temporarily unavailable. Reasons are
// problems of connections, resources or the operating system; an intervention by an operator; a server
// that became read-only by a demotion; conflicts with other transactions; and a lock that was not
// granted in time.
func away(code string) bool {
	switch code {
	case "25006", "40001", "40P01", "55P03", "55006":
		return true
	case "XX001", "XX002":
		// A table or an index is damaged. This fault is permanent.
		return false
	}
	for _, class := range []string{"08", "53", "57", "58", "XX"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// judged converts an error that a retry does not change to a *[fencing.FinalError]. If no answer
// arrived, or the server closed the connection with its answer, the outcome is unknown, and the error
// is returned unchanged.
func judged(err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.SeverityUnlocalized != "ERROR" || away(answer.Code) || unnamed(answer.Code) {
		return err
	}
	return &fencing.FinalError{Err: err}
}

// unnamed reports whether a named statement is missing in the session or already exists. This happens
// if there is a pooler that [pooler] did not detect.
func unnamed(code string) bool { return code == "26000" || code == "42P05" }
