package pg

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/internal/store/fencing"
)

// codeOf returns the SQLSTATE of the database's answer. It returns "" if the error is not an
// answer.
func codeOf(err error) string {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code
	}
	return ""
}

// IsFull reports that the disk of the database is full.
func IsFull(err error) bool { return codeOf(err) == "53100" }

// away reports whether an SQLSTATE means that the database is unavailable for a time: problems of
// connections, resources or the operating system; an operator's intervention; a server that became
// read-only by a demotion; conflicts with other transactions; a lock that was not granted in time.
func away(code string) bool {
	switch code {
	case "25006", "40001", "40P01", "55P03", "55006":
		return true
	case "XX001", "XX002":
		// A table or an index is damaged, which does not pass with time.
		return false
	}
	for _, class := range []string{"08", "53", "57", "58", "XX"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

// judged turns an error that a retry does not change into a *[fencing.FinalError]. If no answer
// came, or the server closed the connection with its answer, the outcome is unknown and the error
// stays as it is.
func judged(err error) error {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || answer.SeverityUnlocalized != "ERROR" || away(answer.Code) || unnamed(answer.Code) {
		return err
	}
	return &fencing.FinalError{Err: err}
}

// unnamed reports whether a named statement is missing in the session or exists already. This
// happens behind a pooler that [pooler] did not detect.
func unnamed(code string) bool { return code == "26000" || code == "42P05" }
